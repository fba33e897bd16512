"""Rows to predict, read as a model reads them, and predictions, read with Python's own readers."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fullpass.components.predict.input_rows import InputRows
from fullpass.components.predict.input_source import AS_TRAINED, input_files, input_source
from fullpass.components.predict.predict import predict_tables, write_predictions
from fullpass.components.predict.tally import Tally


def input_rows(
    trained: Mapping[str, Any], path: Path | str, columns: Any, *, read_as: Mapping[str, Any] | None = None, **more: Any
) -> InputRows:
    """Returns the rows of a path for a model.

    Args:
        trained: The description of the source that the model was trained on.
        read_as: Options that replace those of training.
        more: The options of `InputRows`.
    """
    how = input_source(dict(trained), str(path), dict(read_as or {}))
    return InputRows(input_files(how.source, str(path)), how, columns, **more)


def predict_file(
    model: Any, path: str, target: str, read_as: Mapping[str, Any] = AS_TRAINED, **explained: Any
) -> Tally:
    """Writes the predictions of a file to another."""
    return write_predictions(predict_tables(model, path, read_as, **explained), target)


def read_back(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Returns the rows of output files in the order of their names."""
    found: list[dict[str, Any]] = []
    for path in sorted(paths):
        if path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        else:
            with path.open(newline="") as file:
                found += [json.loads(line) for line in file] if path.suffix == ".jsonl" else list(csv.DictReader(file))
    return found
