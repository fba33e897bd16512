"""What the containers of look-ups run: what a driver or a resolver of TFX would have asked, without TFX.

`python -m kubeflow.lookup --kind KIND --executor-input '{{$}}' --output NAME=PATH`
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

from components.ingest.config import DataConfig, WindowConfig
from components.ingest.files import find_inputs, resolve_path
from components.ingest.request import KnownSpan, Request, SpanRequest, read_request
from components.ingest.spans import LATEST, Span, Window, find_window
from components.ingest.storage import is_address
from components.push import rolled_back_origins
from kubeflow import termination
from kubeflow.executor_input import ExecutorInput, Outputs, name_values, parse, write_absent, write_output
from kubeflow.lookups import DATA_PATH, MODEL_URI, NEW, NOTHING, PUSH_TO, SPAN, WINDOW, requests
from kubeflow.outcomes import NothingNewError, note_failure, of_container
from kubeflow.registry import Blessed, FolderRegistry, Trained
from kubeflow.telling import outcome, tell
from preprocessing.errors import UserError


def main() -> None:
    """Runs one look-up; the process ends here."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="kubeflow.lookup", description=__doc__)
    parser.add_argument("--kind", required=True, choices=list(LOOKUPS))
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--output", action="append", default=[])
    arguments = parser.parse_args()

    def work() -> None:
        told = parse(arguments.executor_input, name_values(arguments.input), name_values(arguments.output))
        artifacts, parameters = LOOKUPS[arguments.kind](told)
        write_output(told.output_file, artifacts, parameters)

    note = partial(note_failure, os.environ, arguments.executor_input, arguments.kind)
    termination.run_to_end(arguments.kind, work, note)


def ingest_inputs(told: ExecutorInput) -> Outputs:
    """Finds the files that Ingest reads.

    Gives Ingest's own parameter with the files and their fingerprint in it: parameters are part of Kubeflow's cache
    key, so Ingest runs again where a file changed, and only there. For a source with spans it gives one such request
    per place of the window, the newest span last, and `window`, what a later run must know of this one.

    Raises:
        SpanNotFoundError: The span asked for is not there, or was trained on before though a new one was asked for.
    """
    asked = json.loads(told.parameters["request"])
    given = told.parameters.get(DATA_PATH, "")
    if given:
        asked["config"]["source"]["path"] = json.loads(given) if given[0] in "[{" else given
    request = read_request(json.dumps(asked))
    folder = Path(told.parameters["folder"])
    places = int(told.parameters.get("spans", 0))
    if places:
        return {}, _window_inputs(told, request, folder, places)
    files = find_inputs(request.config.source, lambda path: resolve_path(path, folder))
    logging.info("%d files, %s bytes", len(files), f"{sum(file.size for file in files):,}")
    return {}, {"request": request.with_window(Window(None, (Span(0, files),)), ()).to_json()}


def _window_inputs(told: ExecutorInput, request: Request, folder: Path, places: int) -> dict[str, str]:
    registry, pipeline = FolderRegistry(told.parameters["registry"]), told.parameters["pipeline"]
    span = told.parameters.get(SPAN) or LATEST
    window = _find_window(told, request, folder, places)
    for line in window.lines():
        logging.info("%s", line)
    if len(window.spans) > places:
        raise UserError(
            f"span {span}: a window of {len(window.spans)} spans, and the package has places for {places}. Ask for "
            "fewer, or give data.window.spans and compile anew."
        )
    request = request.with_window(window, registry.known_spans(pipeline))
    newest = request.spans[-1]
    notes = of_container(os.environ, told.message)
    if notes is not None:
        notes.took({"first_span": request.spans[0].label, "span": newest.label})
    if span == NEW:
        _check_new(newest, registry.newest_trained(pipeline))
    registry.record_spans(pipeline, [KnownSpan(s.number, s.fingerprint, s.version) for s in request.spans])
    of_place = [()] * (places - len(request.spans)) + [(span,) for span in request.spans]
    texts = [replace(request, spans=spans).to_json() for spans in of_place]
    facts = {"number": newest.number, "fingerprint": newest.fingerprint, "label": newest.label}
    facts["spans"] = [span.fingerprint for span in request.spans]
    return {WINDOW: json.dumps(facts), **dict(zip(requests(places), texts, strict=True))}


def _find_window(told: ExecutorInput, request: Request, folder: Path, places: int) -> Window:
    span = told.parameters.get(SPAN) or LATEST
    config = request.config
    data = DataConfig(source=config.source, span=config.span, window=WindowConfig(spans=places))
    registry = told.parameters["registry"]
    # What a file holds of each span is looked up once where that can be kept.
    index = None if is_address(registry) else Path(registry) / told.parameters["pipeline"] / "span_index"
    asked = LATEST if span == NEW else span
    return find_window(data, lambda path: resolve_path(path, folder), asked, index=index)


def _check_new(newest: SpanRequest, last: Trained | None) -> None:
    """A run that must bring something new ends where nothing is: yesterday's data is never taken for today's."""
    if last is None or last.number < newest.number:
        return
    if newest.number == last.number and newest.fingerprint != last.fingerprint:
        logging.info("%s was trained on before; its files have changed since, so it is new", newest.label)
        return
    raise NothingNewError(
        f"no new span: {newest.label} is the newest that is there, and a model was trained on {last.label} at "
        f"{last.time}. Nothing was trained. Wait for its files; or start a run with span: latest to train on it again."
    )


def record_window(told: ExecutorInput) -> Outputs:
    """Remembers the newest span of a window, on which a model was trained now."""
    facts = json.loads(told.parameters[WINDOW])
    registry = FolderRegistry(told.parameters["registry"])
    new = registry.record_trained(told.parameters["pipeline"], facts["number"], facts["fingerprint"], facts["label"])
    logging.info("%s %s", "recorded" if new else "known already:", facts["label"])
    return {}, {}


def nothing(told: ExecutorInput) -> Outputs:
    """Makes the artifact that stands for none."""
    write_absent(told.outputs[NOTHING])
    return {NOTHING: (told.outputs[NOTHING], {})}, {}


def last_blessed_model(told: ExecutorInput) -> Outputs:
    """Finds the newest blessed model that was made from something else than the one about to be made.

    Passed over are models that were rolled back and not brought back. With none, gives the address of what stands for
    nothing.
    """
    registry, pipeline = FolderRegistry(told.parameters["registry"]), told.parameters["pipeline"]
    return _model(told, registry.newest(pipeline, made_from=_made_from(told.parameters), away=_rolled_back(told)))


def last_blessed_model_of_metadata(told: ExecutorInput) -> Outputs:
    """Finds the same as `last_blessed_model` in Kubeflow's own metadata."""
    from kubeflow import mlmd

    known, task = told.inputs[NOTHING].uri, told.parameters["task"]
    with mlmd.metadata() as store:
        made_from = _made_from(told.parameters)
        return _model(told, mlmd.last_blessed(store, known, task, made_from, _made_from, _rolled_back(told)))


def _rolled_back(told: ExecutorInput) -> set[str]:
    away = rolled_back_origins(Path(told.parameters[PUSH_TO]))
    for model in sorted(away):
        logging.info("passed over if it was blessed, for it was rolled back: %s", model)
    return away


def _model(told: ExecutorInput, found: Blessed | None) -> Outputs:
    logging.info(
        "%s", f"the baseline is {found.model}, blessed {found.time}" if found else "no model was blessed before"
    )
    return {}, {MODEL_URI: found.model if found else told.inputs[NOTHING].uri}


def record_blessing(told: ExecutorInput) -> Outputs:
    """Remembers the model of a blessing, if it was blessed."""
    blessing = told.inputs["blessing"]
    if not blessing.metadata.get("blessed"):
        logging.info("not blessed; nothing to record")
        return {}, {}
    model = blessing.metadata.get("current_model")
    if not isinstance(model, str):
        raise UserError(f"the blessing at {blessing.uri} names no model. Received: {sorted(blessing.metadata)}.")
    registry = FolderRegistry(told.parameters["registry"])
    new = registry.record(told.parameters["pipeline"], model, blessing.uri, _made_from(told.parameters))
    logging.info("%s %s", "recorded" if new else "known already:", model)
    return {}, {}


def _made_from(given: Mapping[str, Any]) -> str:
    """Returns a digest of all that a model follows from: the parameters of its nodes, and the data of its run.

    Args:
        given: parameters of the look-up of a run.
    """
    parts = [given.get("made_from"), given.get("request")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


LOOKUPS: Mapping[str, Callable[[ExecutorInput], Outputs]] = {
    "inputs": ingest_inputs,
    "nothing": nothing,
    "blessed-model": last_blessed_model,
    "blessed-model-of-metadata": last_blessed_model_of_metadata,
    "record": record_blessing,
    "record-window": record_window,
    "outcome": outcome,
    "tell": tell,
}
"""--kind -> what it does."""


if __name__ == "__main__":
    main()
