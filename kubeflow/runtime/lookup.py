"""Entry point of the look-up container, which replaces TFX's drivers and resolvers.

`python -m fullpass.kubeflow.runtime.lookup --kind KIND --executor-input '{{$}}' --output NAME=PATH`
"""

import argparse
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fullpass.components.ingest.config import DataConfig, WindowConfig
from fullpass.components.ingest.sources.source_files import find_inputs, resolve_path
from fullpass.components.ingest.sources.storage import is_address
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request, SpanRequest, read_request
from fullpass.components.ingest.spans.spans import LATEST, Span, Window, find_window
from fullpass.components.push.push import rolled_back_origins
from fullpass.kubeflow.compile import lookup_tasks
from fullpass.kubeflow.compile.lookup_tasks import DATA_PATH, MODEL_URI, NEW, NOTHING, PUSH_TO, SPAN, WINDOW
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.executor_input import (
    ExecutorInput,
    Outputs,
    add_arguments,
    from_arguments,
    write_absent,
    write_output,
)
from fullpass.kubeflow.runtime.notify_container import notify_receivers, record_outcome
from fullpass.kubeflow.runtime.pod_outcomes import NoNewSpanError, container_records, record_failure
from fullpass.kubeflow.runtime.registry_store import Blessed, FolderRegistry, Trained
from fullpass.pipeline.root_layout import RootLayout
from fullpass.preprocessing.errors import UserError
from fullpass.preprocessing.secrets.redact import redact_streams


def main() -> None:
    """Runs one look-up; the process ends here."""
    redact_streams()
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="fullpass.kubeflow.runtime.lookup", description=__doc__)
    parser.add_argument("--kind", required=True, choices=list(LOOKUPS))
    add_arguments(parser)
    arguments = parser.parse_args()

    def work() -> None:
        task = from_arguments(arguments)
        artifacts, parameters = LOOKUPS[arguments.kind](task)
        write_output(task.output_file, artifacts, parameters)

    record_error = partial(record_failure, os.environ, arguments.executor_input, arguments.kind)
    termination.run_to_end(arguments.kind, work, record_error)


def find_ingest_inputs(task: ExecutorInput) -> Outputs:
    """Finds the files that Ingest reads.

    Returns Ingest's own parameter with the files and their fingerprint in it. Parameters are part of Kubeflow's cache
    key, so Ingest runs again only where a file has changed. For a source with spans it returns one request for each
    span of the window, the newest last, and `window`, which later runs read.

    Raises:
        SpanNotFoundError: The span asked for is not there, or was trained on before though a new one was asked for.
    """
    asked = json.loads(task.parameters["request"])
    given = task.parameters.get(DATA_PATH, "")
    if given:
        asked["config"]["source"]["path"] = json.loads(given) if given[0] in "[{" else given
    request = read_request(json.dumps(asked))
    folder = Path(task.parameters["folder"])
    size = int(task.parameters.get("spans", 0))
    if size:
        return {}, _window_inputs(task, request, folder, size)
    files = find_inputs(request.config.source, lambda path: resolve_path(path, folder))
    logging.info("%d files, %s bytes", len(files), f"{sum(file.size for file in files):,}")
    return {}, {"request": request.with_window(Window(None, (Span(0, files),)), ()).to_json()}


def _window_inputs(task: ExecutorInput, request: Request, folder: Path, size: int) -> dict[str, str]:
    registry, pipeline = FolderRegistry(task.parameters["registry"]), task.parameters["pipeline"]
    span = task.parameters.get(SPAN) or LATEST
    window = _find_window(task, request, folder, size)
    for line in window.lines():
        logging.info("%s", line)
    if len(window.spans) > size:
        raise UserError(
            f"span {span}: a window of {len(window.spans)} spans, and the package has places for {size}. Ask for "
            "fewer, or give data.window.spans and compile anew."
        )
    request = request.with_window(window, registry.known_spans(pipeline))
    newest = request.spans[-1]
    records = container_records(os.environ, task.message)
    if records is not None:
        records.record_window_data({"first_span": request.spans[0].label, "span": newest.label})
    if span == NEW:
        _check_new(newest, registry.newest_trained(pipeline))
    registry.record_spans(pipeline, [KnownSpan(s.number, s.fingerprint, s.version) for s in request.spans])
    spans_of_tasks = [()] * (size - len(request.spans)) + [(span,) for span in request.spans]
    texts = [replace(request, spans=spans).to_json() for spans in spans_of_tasks]
    facts = {"number": newest.number, "fingerprint": newest.fingerprint, "label": newest.label}
    facts["spans"] = [span.fingerprint for span in request.spans]
    return {WINDOW: json.dumps(facts), **dict(zip(lookup_tasks.request_names(size), texts, strict=True))}


def _find_window(task: ExecutorInput, request: Request, folder: Path, size: int) -> Window:
    span = task.parameters.get(SPAN) or LATEST
    config = request.config
    data = DataConfig(source=config.source, span=config.span, window=WindowConfig(spans=size))
    registry = task.parameters["registry"]
    # An index on a volume saves reading files again to see which spans they hold.
    index = None if is_address(registry) else RootLayout(Path(registry) / task.parameters["pipeline"]).span_index
    asked = LATEST if span == NEW else span
    return find_window(data, lambda path: resolve_path(path, folder), asked, index=index)


def _check_new(newest: SpanRequest, last: Trained | None) -> None:
    """Raises an error unless the newest span is new, or its files have changed since the last training."""
    if last is None or last.number < newest.number:
        return
    if newest.number == last.number and newest.fingerprint != last.fingerprint:
        logging.info("%s was trained on before; its files have changed since, so it is new", newest.label)
        return
    raise NoNewSpanError(
        f"no new span: {newest.label} is the newest that is there, and a model was trained on {last.label} at "
        f"{last.time}. Nothing was trained. Wait for its files; or start a run with span: latest to train on it again."
    )


def record_window(task: ExecutorInput) -> Outputs:
    """Records the newest span of a window after training."""
    facts = json.loads(task.parameters[WINDOW])
    registry = FolderRegistry(task.parameters["registry"])
    new = registry.record_trained(task.parameters["pipeline"], facts["number"], facts["fingerprint"], facts["label"])
    logging.info("%s %s", "recorded" if new else "known already:", facts["label"])
    return {}, {}


def make_empty_artifact(task: ExecutorInput) -> Outputs:
    """Makes the artifact that marks an absent model."""
    write_absent(task.outputs[NOTHING])
    return {NOTHING: (task.outputs[NOTHING], {})}, {}


def find_blessed_model(task: ExecutorInput) -> Outputs:
    """Finds the newest blessed model that was made from other data or parameters, without those rolled back.

    Without such a model it returns the address of the empty artifact.
    """
    registry, pipeline = FolderRegistry(task.parameters["registry"]), task.parameters["pipeline"]
    made_from = _made_from(task.parameters)
    return _model_output(task, registry.newest_blessed(pipeline, made_from=made_from, rolled_back=_rolled_back(task)))


def find_blessed_model_in_metadata(task: ExecutorInput) -> Outputs:
    """Finds the same model as `find_blessed_model`, in Kubeflow's own metadata."""
    from fullpass.kubeflow.runtime import metadata_lookup

    known, name = task.inputs[NOTHING].uri, task.parameters["task"]
    with metadata_lookup.metadata() as store:
        made_from, rolled_back = _made_from(task.parameters), _rolled_back(task)
        found = metadata_lookup.last_blessed(store, known, name, made_from, _made_from, rolled_back)
    return _model_output(task, found)


def _rolled_back(task: ExecutorInput) -> set[str]:
    rolled_back = rolled_back_origins(Path(task.parameters[PUSH_TO]))
    for model in sorted(rolled_back):
        logging.info("passed over if it was blessed, for it was rolled back: %s", model)
    return rolled_back


def _model_output(task: ExecutorInput, found: Blessed | None) -> Outputs:
    logging.info(
        "%s", f"the baseline is {found.model}, blessed {found.time}" if found else "no model was blessed before"
    )
    return {}, {MODEL_URI: found.model if found else task.inputs[NOTHING].uri}


def record_blessing(task: ExecutorInput) -> Outputs:
    """Records the model of a blessing, if it was blessed."""
    blessing = task.inputs["blessing"]
    if not blessing.metadata.get("blessed"):
        logging.info("not blessed; nothing to record")
        return {}, {}
    model = blessing.metadata.get("current_model")
    if not isinstance(model, str):
        raise UserError(f"the blessing at {blessing.uri} names no model. Received: {sorted(blessing.metadata)}.")
    registry = FolderRegistry(task.parameters["registry"])
    new = registry.record_blessed(task.parameters["pipeline"], model, blessing.uri, _made_from(task.parameters))
    logging.info("%s %s", "recorded" if new else "known already:", model)
    return {}, {}


def _made_from(given: Mapping[str, Any]) -> str:
    """Returns a digest of a model's parameters and data, from the parameters of its run's look-up."""
    parts = [given.get("made_from"), given.get("request")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


LOOKUPS: Mapping[str, Callable[[ExecutorInput], Outputs]] = {
    "inputs": find_ingest_inputs,
    "nothing": make_empty_artifact,
    "blessed-model": find_blessed_model,
    "blessed-model-of-metadata": find_blessed_model_in_metadata,
    "record": record_blessing,
    "record-window": record_window,
    "outcome": record_outcome,
    "tell": notify_receivers,
}
"""--kind -> function."""


if __name__ == "__main__":
    main()
