"""What the containers of look-ups run: what a driver or a resolver of TFX would have asked, without TFX.

`python -m kubeflow.lookup --kind KIND --executor-input '{{$}}' --output NAME=PATH`
"""

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.ingest.files import find_inputs, resolve_path
from components.ingest.request import read_request
from components.ingest.spans import Span, Window
from kubeflow import termination
from kubeflow.executor_input import ABSENT, Copy, ExecutorInput, name_values, parse, write_output
from kubeflow.parts import Json
from kubeflow.registry import FolderRegistry
from preprocessing.errors import UserError

Outputs = tuple[Mapping[str, tuple[Copy, Json]], Mapping[str, Any]]
"""Artifacts and parameters."""


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

    termination.run_to_end(arguments.kind, work)


def ingest_inputs(told: ExecutorInput) -> Outputs:
    """Finds the files that Ingest reads.

    Gives `request`, Ingest's own parameter with the files and their fingerprint in it: parameters are part of
    Kubeflow's cache key, so Ingest runs again where a file changed, and only there.
    """
    asked = json.loads(told.parameters["request"])
    given = told.parameters.get("data_path", "")
    if given:
        asked["config"]["source"]["path"] = json.loads(given) if given[0] in "[{" else given
    request = read_request(json.dumps(asked))
    folder = Path(told.parameters["folder"])
    files = find_inputs(request.config.source, lambda path: resolve_path(path, folder))
    logging.info("%d files, %s bytes", len(files), f"{sum(file.size for file in files):,}")
    return {}, {"request": request.with_window(Window(None, (Span(0, files),)), ()).to_json()}


def last_blessed_model(told: ExecutorInput) -> Outputs:
    """Finds the newest blessed model that was made from something else than the one about to be made.

    With none, gives an address that stands for nothing.
    """
    registry = FolderRegistry(told.parameters["registry"])
    found = registry.newest(told.parameters["pipeline"], made_from=_made_from(told))
    nothing = told.outputs["nothing"]
    nothing.path.mkdir(parents=True, exist_ok=True)
    (nothing.path / ABSENT).write_text("Stands for an artifact that is not there.\n")
    logging.info(
        "%s", f"the baseline is {found.model}, blessed {found.time}" if found else "no model was blessed before"
    )
    return {"nothing": (nothing, {})}, {"model_uri": found.model if found else nothing.uri}


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
    new = registry.record(told.parameters["pipeline"], model, blessing.uri, _made_from(told))
    logging.info("%s %s", "recorded" if new else "known already:", model)
    return {}, {}


def _made_from(told: ExecutorInput) -> str:
    """Returns a digest of all that a model follows from: the parameters of its nodes, and the data of this run."""
    parts = [told.parameters["made_from"], told.parameters["request"]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


LOOKUPS: Mapping[str, Callable[[ExecutorInput], Outputs]] = {
    "inputs": ingest_inputs,
    "blessed-model": last_blessed_model,
    "record": record_blessing,
}
"""--kind -> what it does."""


if __name__ == "__main__":
    main()
