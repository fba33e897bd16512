"""Predicts raw rows in files with an exported model. The files are read like the model's training data."""

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.base import state_file
from fullpass.base.errors import UserError, listed
from fullpass.base.files import named_errors, pending_file
from fullpass.components.ingest.history.event_index import EventIndex
from fullpass.components.ingest.joins.join_index import JoinIndex
from fullpass.components.ingest.readers.rows import BadRow
from fullpass.components.pages import notebook_html as html
from fullpass.components.predict.explain import explain
from fullpass.components.predict.input_rows import InputBatch, InputRows, TableRows
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.components.predict.predicted_columns import BAD_ROW, BASE, EFFECT, PREDICTION, score_columns, taken_names
from fullpass.components.predict.write_tables import format_to_write, row_json, write_tables
from fullpass.components.push.push import SERVING
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.trainer.export.export_files import DESCRIPTION, LOOKUPS, SERVING_RAW, column_of, verify_export
from fullpass.trainer.input.raw_tensors import dense_shape, missing_value, to_request

_AS_TRAINED: Mapping[str, Any] = MappingProxyType({})
_MOST_BAD = 0.001
"""That of an export of an earlier release, which does not tell it."""


@dataclass(frozen=True)
class Exported:
    """A loaded export.

    Attributes:
        directory: Folder of the SavedModel.
        predict: The signature `serving_raw`.
        columns: Raw columns that the signature reads.
        keys: Raw column -> name of its input.
        classes: Class names; empty for regression.
        levels: Levels of the quantiles that a regression predicts; empty if it predicts none.
        source: Reading options of the training data: the keys of `data.source` without the location of the data.
        joins: Join of the training data -> its keys of `data.joins`, without the location of the table.
        lookups: Joined tables that the model contains.
        events: The histories of training, with the derived and raw columns of their events (`events_of_serving`).
        most_bad: Largest share of unusable rows of a joined table, or of events.
        dates: Raw column -> the formats in which features read its dates.
        tables: Joined tables that were given to add the columns that an input lacks.
        histories: Events that were given to add the lists that an input lacks.
    """

    directory: Path
    predict: Callable[..., Mapping[str, tf.Tensor]]
    columns: Mapping[str, RawColumn]
    keys: Mapping[str, str]
    classes: tuple[str, ...]
    levels: tuple[float, ...]
    source: Mapping[str, Any]
    joins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: Mapping[str, Any] = field(default_factory=dict)
    most_bad: float = _MOST_BAD
    dates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lookups: Collection[str] = ()
    tables: Sequence[JoinIndex] = ()
    histories: Sequence[EventIndex] = ()

    def warm_up(self) -> None:
        """Predicts a row whose columns are all missing: TensorFlow prepares a graph when it first runs."""
        one = {
            name: np.full([1, *(width or 1 for width in dense_shape(column)[1:])], missing_value(column).numpy())
            for name, column in self.columns.items()
        }
        self.predict(**to_request(one, self.columns, self.keys))

    def _repr_html_(self) -> str:
        kinds = {name: f"{column.type}{', several' if column.many else ''}" for name, column in self.columns.items()}
        answers = {"classes": self.classes, "quantiles": [f"{level:g}" for level in self.levels]}
        facts = [("folder", self.directory), *((name, listed(values)) for name, values in answers.items())]
        return html.block("Model", html.facts(facts), html.table(("column", "type"), kinds.items()))


def export_folder(path: Path) -> Path:
    """Returns the folder of a SavedModel: `path` itself, that of a run's model in it, or its newest numbered version.

    Raises:
        UserError: There is no SavedModel.
    """
    if not path.is_dir():
        raise UserError(
            f"{path}: no such folder. A run pushes its model if it is blessed; for one that is not, give the folder "
            "that the run printed."
        )
    for folder in (path, path / SERVING):
        if (folder / "saved_model.pb").is_file():
            return folder
    versions = [v for v in path.iterdir() if v.name.isdigit() and (v / "saved_model.pb").is_file()]
    if not versions:
        raise UserError(
            f"{path}: no model. Expected a saved_model.pb in it, or folders named by version (1, 2 ...) that have one."
        )
    return max(versions, key=lambda version: int(version.name))


def describe_export(path: Path) -> tuple[Path, dict[str, Any]]:
    """Returns the folder of the export at `path`, or of the newest version in it, and its description.

    Raises:
        UserError: There is no export, it was not written by Fullpass, or its description is damaged.
    """
    directory = export_folder(path)
    if not (directory / DESCRIPTION).is_file():
        raise UserError(f"{directory}: a SavedModel that Fullpass did not write: it has no {DESCRIPTION}.")
    found = state_file.read(directory / DESCRIPTION, "Put it back from a copy of the model, or use another version.")
    return directory, {**found, "source": {"format": "csv", **found.get("source", {})}}


def load_export(path: Path) -> Exported:
    """Loads the export at `path`, or the newest version in it.

    Raises:
        UserError: There is no export, it was not written by Fullpass, or it is damaged.
    """
    directory, description = describe_export(path)
    verify_export(str(directory))
    # The loaded object must outlive its signature, which does not keep the variables alive.
    loaded = [tf.saved_model.load(str(directory))]

    def predict(**columns: tf.Tensor) -> Mapping[str, tf.Tensor]:
        return loaded[0].signatures[SERVING_RAW](**columns)

    # Also at the end of the process: TensorFlow prints an error for each function that is left when Python clears it.
    weakref.finalize(predict, loaded.clear)
    return Exported(
        directory=directory,
        predict=predict,
        columns={c["name"]: column_of(c) for c in description["columns"]},
        keys={c["name"]: c["key"] for c in description["columns"]},
        classes=tuple(description["classes"]),
        levels=tuple(description.get("levels", ())),
        source=description["source"],
        joins=description.get("joins", {}),
        events=description.get("events", {}),
        most_bad=description.get("bad_rows", _MOST_BAD),
        dates=description.get("dates", {}),
        lookups=description.get(LOOKUPS, {}),
    )


class Tally:
    """Counts rows, and those without a prediction by their reasons.

    Attributes:
        rows: Number of rows read so far.
        bad: Number of these rows without a prediction.
        absent: Raw columns that are in no row read so far; they count as missing in every row.
        unread: Raw column -> the number of its texts that are no dates of the model, and why they are none.
        quarantine: File with the bad rows; None if there is none.
    """

    def __init__(self, path: str):
        """Starts with no rows of the input `path`."""
        self._path = path
        self._by_reason: dict[tuple[str | None, str], tuple[int, BadRow]] = {}
        self.rows = self.bad = 0
        self.absent: tuple[str, ...] = ()
        self.unread: dict[str, tuple[int, str]] = {}
        self.quarantine: str | None = None

    @property
    def by_reason(self) -> list[tuple[int, BadRow]]:
        """Number of the bad rows with each reason, and the first of them."""
        return list(self._by_reason.values())

    def add(self, rows: int, bad: Iterable[tuple[int, BadRow]]) -> None:
        """Counts rows, and the bad rows among them, in the form of `by_reason`."""
        self.rows += rows
        for count, row in bad:
            self.bad += count
            before, first = self._by_reason.get((row.column, row.reason), (0, row))
            self._by_reason[row.column, row.reason] = before + count, first

    def add_unread(self, unread: Mapping[str, tuple[int, str]]) -> None:
        """Counts texts that are no dates, in the form of `unread`; the first text of a column is shown."""
        for column, (count, why) in unread.items():
            before, first = self.unread.get(column, (0, why))
            self.unread[column] = before + count, first

    def check(self) -> None:
        """Checks that a row can be used.

        Raises:
            UserError: There is none.
        """
        if not self.rows:
            raise UserError(f"{self._path}: no rows.")
        if self.bad == self.rows:
            why = "\n  ".join(("", *self.reasons))
            raise UserError(f"{self._path}: none of its {self.rows:,} rows can be used.{why}")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The three most frequent reasons why rows have no prediction, as text."""
        return tuple(
            f"{count:,} x {_describe_bad_row(None, row.column, row.reason)}; first: {row.shown}"
            for count, row in sorted(self.by_reason, key=lambda entry: -entry[0])[:3]
        )

    def notes(self) -> list[str]:
        """Returns notes for people about rows without a prediction and about absent columns, line by line."""
        lines = []
        if self.bad:
            kept = f"; they are in {self.quarantine}" if self.quarantine else ""
            lines = [f"{self.bad:,} of {self.rows:,} rows have no prediction{kept}. Most frequent reasons:"]
            lines += [f"  {reason}" for reason in self.reasons]
        if self.absent:
            lines.append(f"Columns that {self._path} lacks, taken as missing: {', '.join(self.absent)}")
        lines += [
            f"Column {column!r}: {count:,} values are taken as missing: {why}"
            for column, (count, why) in self.unread.items()
        ]
        return lines


class Predictions(Tally):
    """The rows of an input with their predictions, as tables that can be iterated once.

    A table has the columns of the input, `prediction`, `probability_<class>` per class, `quantile_<level>` per
    quantile, and `bad_row`, the reason why a row has no prediction. If predictions are explained, it also has `base`,
    and `effect_<column>` per raw column of the model. Rows keep their order.
    """

    def __init__(self, model: Exported, path: str, rows: InputRows | TableRows, *, explained: bool = False):
        super().__init__(path)
        self._model = model
        self._explained = explained
        self._input = rows

    def __iter__(self) -> Iterator[pa.Table]:
        for table, _ in self.with_bad_rows():
            yield table
        self.check()

    def with_bad_rows(self) -> Iterator[tuple[pa.Table, Sequence[BadRow]]]:
        """Yields tables, each with the bad rows among its rows.

        Raises:
            UserError: The input cannot be read, or has a column with the name of a prediction.
        """
        for batch in self._input:
            _check_names(self._path, batch.shown.column_names, _columns_of(self._model, explained=self._explained))
            self.add(len(batch.good), ((1, row) for row in batch.bad))
            self.absent = self._input.absent
            self.add_unread(_unread_dates(self._model.dates, batch.inputs))
            yield _with_predictions(self._model, batch, explained=self._explained), batch.bad


def predict_tables(
    model: Exported, path: str, read_as: Mapping[str, Any] = _AS_TRAINED, *, explained: bool = False
) -> Predictions:
    """Returns the rows of a file with their predictions, as tables.

    Args:
        model: From `load_export`.
        path: A file, folder, glob or address.
        read_as: Keys of `data.source` that differ from those of training, such as
            `{"format": "csv", "separator": ";"}`.
        explained: Whether to compute the effect of each raw column on the score (`explain.py`).

    Raises:
        UserError: There is no such file, or it cannot be read with these options.
    """
    how = input_source(model.source, path, read_as)
    files = input_files(how.source, path)
    rows = InputRows(files, how, model.columns, model.tables, model.joins, histories=model.histories)
    return Predictions(model, path, rows, explained=explained)


def predict_table(model: Exported, table: pa.Table, *, explained: bool = False) -> Predictions:
    """Returns the rows of a table in memory with their predictions; its texts are read like those of training.

    Raises:
        UserError: The table has none of the columns that the model reads.
    """
    text = RawText(**{name: model.source[name] for name in RawText.model_fields if name in model.source})
    return Predictions(model, TableRows.NAME, TableRows(table, text, model.columns), explained=explained)


def predict_file(
    model: Exported,
    path: str,
    target: str,
    *,
    read_as: Mapping[str, Any] = _AS_TRAINED,
    target_format: str | None = None,
    explained: bool = False,
    safe: bool = False,
) -> Predictions:
    """Writes the rows of `path` with predictions to `target`, which appears only when it is complete.

    Bad rows are also written to `<target>.quarantine.jsonl`, with file, row, column, reason and text.

    Args:
        model: From `load_export`.
        path: A file, folder, glob or address.
        target: A CSV, JSON lines or Parquet file.
        read_as: As in `predict_tables`.
        target_format: Csv, tsv, jsonl or parquet; determined by the suffix by default.
        explained: As in `predict_tables`.
        safe: As in `format_to_write`.

    Raises:
        UserError: The input cannot be read, or has no usable row.
    """
    file_format = format_to_write(target, target_format, safe=safe)
    predictions = predict_tables(model, path, read_as, explained=explained)
    with Quarantine(f"{target}.quarantine.jsonl") as quarantine:
        write_tables(target, file_format, quarantine.keep(predictions, predictions.check))
    predictions.quarantine = quarantine.path if predictions.bad else None
    return predictions


class Quarantine:
    """A file of bad rows. It appears when it is complete, and only if there are bad rows."""

    def __init__(self, path: str):
        self.path = path
        self._file: IO[str] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Quarantine":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if self._file is None and error[0] is None and os.path.exists(self.path):
            os.unlink(self.path)  # from an earlier output of the same name

    def keep(self, predictions: Predictions, check: Callable[[], None] = lambda: None) -> Iterator[pa.Table]:
        """Yields the tables and writes their bad rows; calls `check` after the last of them."""
        for table, bad in predictions.with_bad_rows():
            if bad and self._file is None:
                pending = self._stack.enter_context(pending_file(Path(self.path)))
                self._file = self._stack.enter_context(open(pending, "w", encoding="utf-8"))
            if self._file is not None:
                with named_errors(Path(self.path)):
                    self._file.writelines(row_json(asdict(row)) + "\n" for row in bad)
            yield table
        check()


def _unread_dates(dates: Mapping[str, Sequence[str]], inputs: Mapping[str, np.ndarray]) -> dict[str, tuple[int, str]]:
    """Returns column -> the number of its texts that have no format of its features, and why the first has none."""
    found = {}
    for column, formats in dates.items():
        if column in inputs and inputs[column].ndim == 1:
            cells = pa.array(inputs[column], pa.binary()).dictionary_encode()
            texts = [cell.decode("utf-8", "replace") for cell in cells.dictionary.to_pylist()]
            read = [read_dates(pa.array(texts, pa.string()), format).valid for format in formats]
            wrong = ~np.any(read, axis=0) & (np.array(texts, object) != "")
            if wrong.any():
                count = int(wrong[cells.indices.to_numpy()].sum())
                first = texts[int(np.flatnonzero(wrong)[0])]
                found[column] = count, f"{first!r} is no date in the format {' or '.join(formats)}."
    return found


def _check_names(path: str, present: Sequence[str], columns: Sequence[str]) -> None:
    if taken := taken_names(present, columns):
        raise UserError(f"{path}: column {taken[0]!r} has the name of a prediction; rename or drop it.")


def _with_predictions(model: Exported, batch: InputBatch, *, explained: bool) -> pa.Table:
    predictions = _prediction_columns(model, batch, explained=explained) if batch.good.any() else {}
    # Index into the predictions, null for rows without a prediction.
    index = pa.array(np.cumsum(batch.good) - 1, mask=~batch.good)
    kind = pa.string() if model.classes else pa.float32()
    # Image bytes are not readable, and as large as all other columns together; the column `file` names the image.
    images = [name for name in batch.shown.column_names if name in model.columns and model.columns[name].image]
    shown = batch.shown.drop(images)
    columns = {name: shown.column(name) for name in shown.column_names}
    for name in (PREDICTION, *_columns_of(model, explained=explained)):
        none = pa.nulls(len(batch.good), kind if name == PREDICTION else pa.float32())
        columns[name] = predictions[name].take(index) if predictions else none
    why = iter(_describe_bad_row(row.row, row.column, row.reason) for row in batch.bad)
    columns[BAD_ROW] = pa.array([None if good else next(why) for good in batch.good], pa.string())
    return pa.table(columns)  # from columns: a table without any, as that of lines that are no JSON, has no rows


def _columns_of(model: Exported, *, explained: bool) -> list[str]:
    """Returns the output columns other than the prediction, in the order of the model's outputs."""
    scores = score_columns(model.classes, model.levels)
    return [*scores, BASE, *(f"{EFFECT}{name}" for name in model.columns)] if explained else scores


def _prediction_columns(model: Exported, batch: InputBatch, *, explained: bool) -> dict[str, pa.Array]:
    """Returns the prediction and the other output columns of every good row, by column name."""
    outputs = _predict(model, batch.inputs)
    predicted = outputs["prediction"]
    columns_by_name = {
        PREDICTION: pa.array(predicted, pa.binary()).cast(pa.string()) if model.classes else pa.array(predicted)
    }
    if columns := _columns_of(model, explained=False):
        beside = outputs["probabilities" if model.classes else "quantiles"]
        columns_by_name |= {name: pa.array(beside[:, i]) for i, name in enumerate(columns)}
    if explained:
        why = explain(lambda inputs: _predict(model, inputs), batch.inputs)
        none = np.zeros(len(predicted))
        columns_by_name[BASE] = pa.array(why.base, pa.float32())
        columns_by_name |= {f"{EFFECT}{n}": pa.array(why.effects.get(n, none), pa.float32()) for n in model.columns}
    return columns_by_name


def _predict(model: Exported, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the model's outputs; absent columns count as missing in every row."""
    request = to_request(inputs, model.columns, model.keys)
    return {name: tensor.numpy() for name, tensor in model.predict(**request).items()}


def _describe_bad_row(row: int | None, column: str | None, reason: str) -> str:
    where = [f"row {row}"] if row is not None else []
    return ": ".join([*where, *([f"column {column!r}"] if column else []), reason])
