"""Predictions of an exported model for raw rows in a file, with TensorFlow and Arrow alone."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf

from preprocessing.columns import RawColumn
from preprocessing.convert import convert_raw
from preprocessing.errors import UserError, did_you_mean
from preprocessing.raw_text import RawText
from trainer.raw_columns import DTYPES
from trainer.tables import Batch, format_of, read_tables, write_tables

PREDICTION = "prediction"
PROBABILITY = "probability_"
_SIGNATURE = "serving_raw"
_EMPTY = {"number": np.float32, "string": object, "vector": np.float32}
_DESCRIPTION = Path("assets.extra") / "fullpass.json"


@dataclass(frozen=True)
class Exported:
    """A loaded export.

    Attributes:
        directory: of the SavedModel.
        answer: the signature `serving_raw`.
        columns: raw columns it reads.
        keys: raw column -> name of its input.
        classes: class names; empty for regression.
        text: how text was read at ingest, and so is read here.
    """

    directory: Path
    answer: Callable[..., Mapping[str, tf.Tensor]]
    columns: Mapping[str, RawColumn]
    keys: Mapping[str, str]
    classes: tuple[str, ...]
    text: RawText


@dataclass(frozen=True)
class Predicted:
    """What was predicted. rows: their number. absent: raw columns that the input lacks, and so were missing."""

    rows: int
    absent: tuple[str, ...]


def find_export(path: Path) -> Path:
    """Returns the folder of a SavedModel: `path` itself, or the newest numbered version in it.

    Raises:
        UserError: There is none.
    """
    if not path.is_dir():
        raise UserError(f"{path}: no such folder.")
    if (path / "saved_model.pb").is_file():
        return path
    versions = [v for v in path.iterdir() if v.name.isdigit() and (v / "saved_model.pb").is_file()]
    if not versions:
        raise UserError(
            f"{path}: no model. Expected a saved_model.pb in it, or folders named by version (1, 2 ...) that have one."
        )
    return max(versions, key=lambda version: int(version.name))


def load_export(path: Path) -> Exported:
    """Loads the export at `path`, or the newest version in it.

    Raises:
        UserError: There is none, or it was not made by Fullpass.
    """
    directory = find_export(path)
    if not (directory / _DESCRIPTION).is_file():
        raise UserError(f"{directory}: a SavedModel, but not one of Fullpass's: it has no {_DESCRIPTION}.")
    said = json.loads((directory / _DESCRIPTION).read_text(encoding="utf-8"))
    # The loaded object must outlive its signature, which does not keep the variables alive.
    loaded = tf.saved_model.load(str(directory))
    return Exported(
        directory=directory,
        answer=lambda **columns: loaded.signatures[_SIGNATURE](**columns),
        columns={c["name"]: RawColumn(c["name"], c["type"], c.get("width", 1)) for c in said["columns"]},
        keys={c["name"]: c["key"] for c in said["columns"]},
        classes=tuple(said["classes"]),
        text=RawText(**{name: said[name] for name in RawText.model_fields if name in said}),
    )


def predict_file(
    model: Exported,
    source: str,
    target: str,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
) -> Predicted:
    """Writes the rows of `source` with predictions to `target`, which is there only once it is whole.

    Args:
        model: from `load_export`.
        source: a CSV, JSON lines or Parquet file.
        target: likewise.
        source_format: csv, tsv, jsonl or parquet; by default what the suffix says.
        target_format: likewise.

    Raises:
        UserError: The input cannot be read, or a cell is not what its column should hold.
    """
    tables = predict_tables(model, source, source_format)
    first = next(tables, None)
    if first is None:
        raise UserError(f"{source}: no rows.")
    counted = _Counted(chain([first], tables))
    write_tables(target, format_of(target, target_format), counted)
    return Predicted(counted.rows, absent_columns(model, first.column_names))


def predict_tables(model: Exported, source: str, source_format: str | None = None) -> Iterator[pa.Table]:
    """Yields the rows of a file, in order, with the columns `prediction` and, per class, `probability_<class>`.

    Args:
        model: from `load_export`.
        source: a CSV, JSON lines or Parquet file.
        source_format: csv, tsv, jsonl or parquet; by default what the suffix says.

    Raises:
        UserError: The input cannot be read, or a cell is not what its column should hold; file and row are named.
    """
    for batch in read_tables(source, format_of(source, source_format), model.text):
        _check_columns(model, source, batch.table.column_names)
        if batch.table.num_rows:
            yield _with_predictions(model, source, batch)


def absent_columns(model: Exported, present: Sequence[str]) -> tuple[str, ...]:
    """Returns the raw columns that are not `present`; they count as missing in every row."""
    return tuple(name for name in model.columns if name not in present)


class _Counted(Iterator[pa.Table]):
    """Tables as they come; `rows` is the number of their rows so far."""

    def __init__(self, tables: Iterator[pa.Table]):
        self._tables = tables
        self.rows = 0

    def __next__(self) -> pa.Table:
        table = next(self._tables)
        self.rows += table.num_rows
        return table


def _check_columns(model: Exported, source: str, present: Sequence[str]) -> None:
    if not set(present) & set(model.columns):
        wanted = next(iter(model.columns))
        raise UserError(
            f"{source}: none of the columns that the model reads is there.{did_you_mean(wanted, present)} "
            f"It reads: {', '.join(model.columns)}. The file has: {', '.join(present)}."
        )
    taken = [name for name in present if name == PREDICTION or name.startswith(PROBABILITY)]
    if taken:
        raise UserError(f"{source}: column {taken[0]!r} has the name of a prediction; rename or drop it.")


def _with_predictions(model: Exported, source: str, batch: Batch) -> pa.Table:
    values = {name: _values(model, source, batch, column) for name, column in model.columns.items()}
    inputs = {model.keys[n]: tf.constant(v, DTYPES[model.columns[n].type]) for n, v in values.items()}
    answers = {name: tensor.numpy() for name, tensor in model.answer(**inputs).items()}
    table = batch.table.append_column(PREDICTION, _as_arrow(answers["prediction"]))
    for place, name in enumerate(model.classes):
        table = table.append_column(f"{PROBABILITY}{name}", pa.array(answers["probabilities"][:, place]))
    return table


def _values(model: Exported, source: str, batch: Batch, column: RawColumn) -> np.ndarray:
    """Returns a column as `serving_raw` takes it; one that is absent has no rows."""
    if column.name not in batch.table.column_names:
        return np.zeros((0, column.width) if column.type == "vector" else 0, _EMPTY[column.type])
    given = batch.table[column.name].combine_chunks()
    converted = convert_raw(given, column, model.text)
    if converted.bad.any():
        row = int(converted.bad.argmax())
        raise UserError(
            f"{source} row {batch.first_row + row}: column {column.name!r}: {given[row].as_py()!r} is "
            f"{converted.reason}. Correct the cell, or leave it empty if the value is not known."
        )
    return _filled(converted.values, column)


def _filled(lists: pa.ListArray, column: RawColumn) -> np.ndarray:
    """Returns one value per row, or `width` of a vector, with NaN or an empty string where there is none."""
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    if column.type == "string":
        filled = np.full(len(lists), b"", object)
    else:
        filled = np.full((len(lists), column.width) if column.type == "vector" else len(lists), np.nan, np.float32)
    filled[present] = flat.reshape(-1, column.width) if column.type == "vector" else flat
    return filled


def _as_arrow(values: np.ndarray) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string()) if values.dtype == object else pa.array(values)
