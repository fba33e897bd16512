"""Predicts raw rows in files or in memory with an exported model. They are read like the model's training data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.rows import BadRow
from fullpass.components.predict.explain import explain
from fullpass.components.predict.explanation import MOST_ROWS, Explanation, explained_rows
from fullpass.components.predict.exported import Exported
from fullpass.components.predict.input_rows import InputBatch, InputRows, OtherRows, TableRows
from fullpass.components.predict.input_source import AS_TRAINED, input_files, input_source
from fullpass.components.predict.predicted_columns import BAD_ROW, BASE, EFFECT, PREDICTION, score_columns, taken_names
from fullpass.components.predict.tally import Quarantine, Tally, describe_bad_row, unread_dates
from fullpass.components.predict.write_tables import format_to_write, write_tables
from fullpass.preprocessing.values.raw_text import RawText


class Predictions:
    """The rows of an input with their predictions, as tables that can be iterated once.

    A table has the columns of the input, `prediction`, `probability_<class>` per class, `quantile_<level>` per
    quantile, and `bad_row`, the reason why a row has no prediction. If predictions are explained, it also has `base`,
    and `effect_<column>` per raw column of the model. Rows keep their order.

    Attributes:
        tally: The counts of the rows read so far.
        first: The first of these rows, if predictions are explained.
    """

    def __init__(self, model: Exported, path: str, rows: InputRows | TableRows, *, explained: bool = False):
        self.tally = Tally(path)
        self.first: list[pa.Table] = []
        self._model = model
        self._path = path
        self._input = rows
        self._explained = explained
        self._scores = score_columns(model.classes, model.levels)
        effects = [BASE, *(f"{EFFECT}{name}" for name in model.columns)] if explained else []
        self._added = [*self._scores, *effects]

    def __iter__(self) -> Iterator[pa.Table]:
        for table, _ in self.with_bad_rows():
            yield table
        self.tally.check()

    def with_bad_rows(self) -> Iterator[tuple[pa.Table, Sequence[BadRow]]]:
        """Yields tables, each with the bad rows among its rows.

        Raises:
            UserError: The input cannot be read, or has a column with the name of a prediction.
        """
        for batch in self._input:
            if taken := taken_names(batch.shown.column_names, self._added):
                raise UserError(f"{self._path}: column {taken[0]!r} has the name of a prediction; rename or drop it.")
            unread = unread_dates(self._model.training.dates, batch.inputs)
            self.tally.add(len(batch.good), ((1, row) for row in batch.bad), unread)
            self.tally.absent = self._input.absent
            table = self._table(batch)
            if self._explained and sum(map(len, self.first)) < MOST_ROWS:
                self.first.append(table.slice(0, MOST_ROWS))
            yield table, batch.bad

    def explanation(self, rows: Any = None) -> Explanation:
        """Returns the explanation of the rows read so far.

        Args:
            rows: The rows as they are given to the caller.
        """
        found = explained_rows(self.first, list(self._model.columns), self._model.classes)
        return Explanation(rows, tuple(found), self.tally.rows)

    def _table(self, batch: InputBatch) -> pa.Table:
        """Returns the rows of a batch with the added columns, which are null for rows without a prediction."""
        model, good = self._model, batch.good
        # Image bytes are not readable, and as large as all other columns together; the column `file` names the image.
        images = {name for name, column in model.columns.items() if column.image}
        columns = {name: batch.shown.column(name) for name in batch.shown.column_names if name not in images}
        if good.any():
            index = pa.array(np.cumsum(good) - 1, mask=~good)
            columns |= {name: values.take(index) for name, values in self._predicted(batch).items()}
        else:
            columns[PREDICTION] = pa.nulls(len(good), pa.string() if model.classes else pa.float32())
            columns |= {name: pa.nulls(len(good), pa.float32()) for name in self._added}
        why = iter(describe_bad_row(row.row, row.column, row.reason) for row in batch.bad)
        columns[BAD_ROW] = pa.array([None if one else next(why) for one in good], pa.string())
        return pa.table(columns)  # from columns: a table without any, as that of lines that are no JSON, has no rows

    def _predicted(self, batch: InputBatch) -> dict[str, pa.Array]:
        """Returns the prediction and the other added columns of every good row, by name."""
        model = self._model
        outputs = model.outputs(batch.inputs)
        predicted = outputs["prediction"]
        made = {PREDICTION: pa.array(predicted)}
        if model.classes:
            made[PREDICTION] = pa.array(predicted, pa.binary()).cast(pa.string())
        if self._scores:
            beside = outputs["probabilities" if model.classes else "quantiles"]
            made |= {name: pa.array(beside[:, i]) for i, name in enumerate(self._scores)}
        if self._explained:
            why = explain(model.outputs, batch.inputs)
            none = np.zeros(len(predicted))
            made[BASE] = pa.array(why.base, pa.float32())
            made |= {f"{EFFECT}{n}": pa.array(why.effects.get(n, none), pa.float32()) for n in model.columns}
        return made


def predict_tables(
    model: Exported,
    path: str,
    read_as: Mapping[str, Any] = AS_TRAINED,
    *,
    others: OtherRows | None = None,
    explained: bool = False,
) -> Predictions:
    """Returns the rows of a file with their predictions, as tables.

    Args:
        model: From `load_export`.
        path: A file, folder, glob or address.
        read_as: Keys of `data.source` that differ from those of training, such as
            `{"format": "csv", "separator": ";"}`.
        others: Joined tables and events that add the columns that the input lacks.
        explained: Whether to compute the effect of each raw column on the score (`explain.py`).

    Raises:
        UserError: There is no such file, or it cannot be read with these options.
    """
    how = input_source(model.training.source, path, read_as)
    files = input_files(how.source, path)
    rows = InputRows(files, how, model.columns, joins=model.training.joins, others=others)
    return Predictions(model, path, rows, explained=explained)


def predict_table(model: Exported, table: pa.Table, *, explained: bool = False) -> Predictions:
    """Returns the rows of a table in memory with their predictions; its texts are read like those of training.

    Raises:
        UserError: The table has none of the columns that the model reads.
    """
    source = model.training.source
    text = RawText(**{name: source[name] for name in RawText.model_fields if name in source})
    return Predictions(model, TableRows.NAME, TableRows(table, text, model.columns), explained=explained)


def write_predictions(predictions: Predictions, target: str, *, safe: bool = False) -> Tally:
    """Writes rows with predictions to `target`, which appears only when it is complete.

    Bad rows are also written to `<target>.quarantine.jsonl`, with file, row, column, reason and text.

    Args:
        target: A CSV, JSON lines, Parquet or TFRecord file, by its suffix.
        safe: As in `format_to_write`.

    Raises:
        UserError: The input cannot be read, or has no usable row.
    """
    file_format, tally = format_to_write(target, safe=safe), predictions.tally
    with Quarantine(f"{target}.quarantine.jsonl") as quarantine:
        write_tables(target, file_format, quarantine.keep(predictions.with_bad_rows(), tally.check))
    tally.quarantine = quarantine.path if tally.bad else None
    return tally
