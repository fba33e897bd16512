"""Entry point of the look-up container, which replaces TFX's drivers and resolvers.

`python -m fullpass.kubeflow.runtime.lookup --kind KIND --executor-input '{{$}}' --output NAME=PATH`
"""

import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import SpanRelease
from fullpass.components.data_gate.span_verdicts import VerdictStore, with_known_verdicts
from fullpass.components.ingest.config import DataConfig, WindowConfig
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request, SpanRequest, read_request
from fullpass.components.ingest.spans.joined_tables import find_tables
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.ingest.spans.spans import LATEST, Window, find_window, span_unit
from fullpass.components.push.push import rolled_back_origins
from fullpass.kubeflow import protocol
from fullpass.kubeflow.kfp_internals import uri_of_all_runs
from fullpass.kubeflow.protocol import Json
from fullpass.kubeflow.runtime import outcomes, termination
from fullpass.kubeflow.runtime.executor_input import (
    ExecutorInput,
    Outputs,
    container_arguments,
    from_arguments,
    write_output,
)
from fullpass.kubeflow.runtime.registry import FolderRegistry, TrainedWindow
from fullpass.kubeflow.runtime.span_store import SpanStore
from fullpass.pipeline.root.layout import SPAN_VERDICTS, RootLayout
from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.pipeline.scheduling.due import expected_span


def main() -> None:
    """Runs one look-up, then exits the process."""
    arguments = container_arguments("fullpass.kubeflow.runtime.lookup", __doc__, kind=list(LOOKUPS))

    def work() -> None:
        task = from_arguments(arguments)
        artifacts, parameters = LOOKUPS[arguments.kind](task)
        write_output(task.output_file, artifacts, parameters)

    record_error = partial(outcomes.record_failure, os.environ, arguments.executor_input, arguments.kind)
    termination.run_to_end(lambda: arguments.kind, work, record_error, reconnect=True)


def find_run_inputs(task: ExecutorInput) -> Outputs:
    """Finds the files that Ingest reads, and the last blessed model.

    Returns Ingest's parameter `request`, which identifies the files and their fingerprints. Parameters are part of
    Kubeflow's cache key, so Ingest runs again only if a file has changed. For a source with spans it also returns
    `window`, which later runs read.

    Raises:
        SpanNotFoundError: The requested span does not exist, or a new span is requested but was trained on before.
        UserError: The registry or the folder of pushed models is not writable.
    """
    check_writable(task.parameters["registry"])
    found = _find_files(task)
    identity = [task.parameters[protocol.MADE_FROM], found.get(protocol.WINDOW, found[protocol.REQUEST])]
    made_from = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return {}, {**found, protocol.MADE_FROM: made_from, protocol.MODEL_URI: _baseline(task, made_from)}


def _find_files(task: ExecutorInput) -> dict[str, str]:
    fields = json.loads(task.parameters["request"])
    if given := task.parameters.get(protocol.DATA_PATH, ""):
        fields["config"]["source"]["path"] = json.loads(given) if given[0] in "[{" else given
    request = read_request(json.dumps(fields))
    folder = Path(task.parameters["folder"])
    if protocol.SPANS in task.parameters:
        return _window_inputs(task, request, folder)
    resolve = partial(resolve_path, directory=folder)
    files = find_inputs(request.config.source, resolve)
    logging.info("%d files, %s bytes", len(files), f"{sum(file.size for file in files):,}")
    window = Window(None, (Span(0, files),), tables=find_tables(request.config.joins, resolve, None))
    window = _gated(task, request, window)
    return {protocol.REQUEST: _record_request(task, request.with_window(window, ())), protocol.KNOWN: window.gate}


def _gated(task: ExecutorInput, request: Request, window: Window) -> Window:
    """Returns a window with what the data gate knows about its spans, as `run_window` on one machine."""
    gate = task.parameters.get(protocol.GATE) or protocol.STOP
    if gate not in (protocol.STOP, protocol.WARN):
        raise UserError(f"{protocol.GATE}: accepted are {protocol.STOP} and {protocol.WARN}. Received: {gate!r}.")
    store = VerdictStore(f"{task.parameters['registry']}/{task.parameters['pipeline']}/{SPAN_VERDICTS}")
    gates = GatesConfig.model_validate_json(task.parameters[protocol.GATES])
    release = SpanRelease("a parameter", f"{protocol.GATE}={gate}") if gate == protocol.WARN else None
    return with_known_verdicts(window, store, request.config, gates, release)


def _record_request(task: ExecutorInput, request: Request, *, again: bool = False) -> str:
    """Stores a request in the registry and returns JSON with its name there and a readable summary."""
    registry, pipeline = FolderRegistry(task.parameters["registry"]), task.parameters["pipeline"]
    files = [file for span in request.spans for file in span.files]
    summary: Json = {"files": len(files), "bytes": sum(file.size for file in files)}
    if request.spanned:
        summary |= {"spans": len(request.spans), "first_span": request.spans[0].label, "span": request.spans[-1].label}
    return json.dumps({"name": registry.record_request(pipeline, request.to_json(), again=again), **summary})


def _window_inputs(task: ExecutorInput, request: Request, folder: Path) -> dict[str, str]:
    registry, pipeline = FolderRegistry(task.parameters["registry"]), task.parameters["pipeline"]
    window = _gated(task, request, _find_window(task, request, folder))
    for line in window.lines():
        logging.info("%s", line)
    request = request.with_window(window, registry.known_spans(pipeline))
    newest = request.spans[-1]
    if (records := outcomes.container_records(os.environ, task.message)) is not None:
        records.record_window_data({"first_span": request.spans[0].label, "span": newest.label})
    if task.parameters.get(protocol.SPAN) in (protocol.NEW, protocol.SCHEDULED):
        _check_new(newest, registry.newest_trained(pipeline))
    registry.record_spans(pipeline, [KnownSpan(s.number, s.fingerprint, s.version) for s in request.spans])
    missing_spans = SpanStore(task.parameters[protocol.ENTRIES]).missing_spans(request.spans)
    logging.info("%d of %d spans are to be ingested", len(missing_spans), len(request.spans))
    fingerprints = hashlib.sha256("".join(span.fingerprint for span in request.spans).encode()).hexdigest()
    facts = {"number": newest.number, "fingerprint": newest.fingerprint, "label": newest.label, "spans": fingerprints}
    return {
        protocol.WINDOW: json.dumps(facts),
        protocol.KNOWN: window.gate,
        protocol.REQUEST: _record_request(task, request, again=bool(missing_spans)),
    }


def _find_window(task: ExecutorInput, request: Request, folder: Path) -> Window:
    span = task.parameters.get(protocol.SPAN) or LATEST
    config, size = request.config, task.parameters[protocol.SPANS]
    window = WindowConfig(spans=int(size) if size.isdigit() else size)
    data = DataConfig(source=config.source, span=config.span, joins=config.joins, window=window)
    registry = task.parameters["registry"]
    # An index on a volume avoids reading files again to determine their spans.
    index = None if is_address(registry) else RootLayout(Path(registry) / task.parameters["pipeline"]).span_index
    requested = _planned_span(task, data) if span == protocol.SCHEDULED else LATEST if span == protocol.NEW else span
    return find_window(data, lambda path: resolve_path(path, folder), requested, index=index)


def _planned_span(task: ExecutorInput, data: DataConfig) -> str:
    """Returns the label of the span of the scheduled time."""
    unit, scheduled = span_unit(data), task.parameters.get(protocol.SCHEDULE_TIME, "")
    if unit is None or protocol.SCHEDULE not in task.parameters:
        raise UserError(
            f"span: {protocol.SCHEDULED} needs `schedule: {{lag: ...}}` in the YAML. Compile with it, or give a date."
        )
    try:
        planned = datetime.fromisoformat(scheduled)
    except ValueError:
        raise UserError(
            f"span: {protocol.SCHEDULED}: the backend provided no scheduled time. Received: {scheduled!r}."
        ) from None
    number = expected_span(unit, planned, ScheduleConfig.model_validate_json(task.parameters[protocol.SCHEDULE]))
    if number is None:
        raise UserError(
            f"span: {protocol.SCHEDULED}: numbered spans have no scheduled time. Give a number, or {LATEST}."
        )
    logging.info("scheduled for %s: span %s", scheduled, label_of(unit, number))
    return label_of(unit, number)


def _check_new(newest: SpanRequest, last: TrainedWindow | None) -> None:
    """Raises NoNewSpanError unless the newest span is new or its files have changed since the last training."""
    if last is None or last.number < newest.number:
        return
    if newest.number == last.number and newest.fingerprint != last.fingerprint:
        logging.info("%s was trained on before; its files have changed since, so it is new", newest.label)
        return
    raise outcomes.NoNewSpanError(
        f"no new span: {newest.label} is the newest existing span, and a model was trained on {last.label} at "
        f"{last.time}. Nothing was trained. Wait for newer files, or start a run with span: latest to train again."
    )


def _baseline(task: ExecutorInput, made_from: str) -> str:
    """Returns the URI of the newest blessed model with other data or parameters that was not rolled back.

    If there is none, it is a URI without files, the same in all runs.
    """
    pipeline, push_to = task.parameters["pipeline"], task.parameters[protocol.PUSH_TO]
    check_writable(push_to)
    rolled_back = rolled_back_origins(Path(push_to))
    for model in sorted(rolled_back):
        logging.info("not a baseline, because it was rolled back: %s", model)
    registry = FolderRegistry(task.parameters["registry"])
    found = registry.newest_blessed(pipeline, made_from=made_from, rolled_back=rolled_back)
    text = f"the baseline is {found.model}, blessed {found.time}" if found else "no model was blessed before"
    logging.info("%s", text)
    return found.model if found else uri_of_all_runs(task.outputs[protocol.EMPTY_ARTIFACT].uri, pipeline)


def _find_model(task: ExecutorInput) -> Outputs:
    """Finds the newest blessed model that was not rolled back.

    Raises:
        UserError: There is none.
    """
    registry, pipeline = task.parameters["registry"], task.parameters["pipeline"]
    rolled_back = rolled_back_origins(Path(task.parameters[protocol.PUSH_TO]))
    found = FolderRegistry(registry).newest_blessed(pipeline, rolled_back=rolled_back)
    if found is None:
        raise UserError(
            f"{registry}/{pipeline}/blessed: no blessed model. Run the pipeline first, or give `model` of `predict` in "
            "the environment file."
        )
    logging.info("%s, blessed %s", found.model, found.time)
    return {}, {protocol.MODEL_URI: found.model}


def check_writable(folder: str) -> None:
    """Checks that a folder, or its nearest existing ancestor, is writable; URLs always pass.

    The backend sets no fsGroup, and new disks belong to root. The check runs early, so no training is lost because of a
    volume that was never writable.

    Raises:
        UserError: The folder is not writable; the message names owner, mode and user.
    """
    if is_address(folder):
        return
    there = next(path for path in (Path(folder), *Path(folder).parents) if path.is_dir())
    if os.access(there, os.W_OK | os.X_OK):
        return
    found = there.stat()
    owner = f"user {found.st_uid} and group {found.st_gid}, {stat.filemode(found.st_mode)}"
    raise UserError(
        f"{folder}: {there} belongs to {owner}, and this container runs as user {os.geteuid()} of group "
        f"{os.getegid()}, which cannot write there. Make the volume writable for the group once, as in "
        "docs/kubeflow.md, Volumes."
    )


LOOKUPS: Mapping[str, Callable[[ExecutorInput], Outputs]] = {
    "inputs": find_run_inputs,
    "model": _find_model,
    "outcome": outcomes.record_outcome,
    "tell": outcomes.notify_receivers,
}
"""Value of --kind -> function."""


if __name__ == "__main__":
    main()
