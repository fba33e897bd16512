"""Converts raw examples to columns: dense tensors with missing values, and the computed derived columns.

Columns that are absent in serving are read separately from the others. A transformed feature must not depend on them:
TF Transform could not compute it from a request that lacks them.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import tensorflow as tf

from fullpass.base.errors import UserError, did_you_mean, prefix_errors
from fullpass.preprocessing.apply.list_tensors import group_of_each, rows_where
from fullpass.preprocessing.apply.stable_ids import NO_BASE_MODEL, BaseModelRef
from fullpass.preprocessing.columns.raw_columns import (
    RAW_ROW_ID,
    RAW_TRAIN_ROW,
    RawColumn,
    raw_columns,
    row_columns,
    serving_columns,
)
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.expressions.expression import Expression, lists_in, parse_expression
from fullpass.preprocessing.expressions.past_ops import PastColumn
from fullpass.preprocessing.expressions.syntax_tree import age_column
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, Value, compute_expression, token_tensor
from fullpass.preprocessing.features.history import history_of

_MISSING = float("nan")
_DTYPES = {"number": tf.float32, "string": tf.string, "vector": tf.float32}


def raw_feature_spec(config: PreprocessingConfig, *, serving: bool) -> dict[str, tf.io.VarLenFeature]:
    """Returns the parsing spec of raw examples; with `serving`, only the columns that features need."""
    columns = serving_columns(config) if serving else raw_columns(config)
    spec = {name: tf.io.VarLenFeature(_DTYPES[column.type]) for name, column in columns.items()}
    rows = {} if serving else dict.fromkeys(row_columns(config), tf.io.VarLenFeature(tf.int64))
    return {**spec, **rows}


class Columns:
    """The raw and derived columns of a batch.

    Numbers are float32 [batch]; NaN means missing, and infinity becomes NaN. Strings are a `StringColumn` of string
    [batch] and bool [batch]; a string is missing if and only if it is empty. Vectors are float32 [batch, width] with
    NaN for missing.

    Args:
        inputs: Raw columns as parsed by `raw_feature_spec`; an absent column is missing in every example.
    """

    def __init__(
        self,
        inputs: Mapping[str, tf.SparseTensor],
        config: PreprocessingConfig,
        base_model: BaseModelRef = NO_BASE_MODEL,
    ):
        self.config, self.base_model = config, base_model
        self.vocabulary_users = config.vocabulary_users()
        self._raw = raw = raw_columns(config)
        serving = serving_columns(config)
        self._inputs = inputs
        self.labelled: Any = None
        """The label, once it is transformed; see `label.labelled`."""
        self._lists = {name for name, column in raw.items() if column.many}
        self._values: dict[str, tf.Tensor | StringColumn] = {}
        self._events: dict[str, tf.RaggedTensor] = {}  # history -> positions in its lists
        self._pasts: dict[str, PastColumn] = {}
        # Any column gives the batch size; the chosen one must exist in serving.
        known = [name for name in (*serving, *raw, RAW_ROW_ID) if name in inputs]
        self.batch_size = tf.cast(inputs[known[0]].dense_shape[0], tf.int64)
        self._read([column for name, column in raw.items() if name in serving])
        self._read([column for name, column in raw.items() if name not in serving])
        self._in_serving = set(serving)
        for name, text in config.derive.items():
            with prefix_errors(f"data.derive.{name}"):
                self._values[name] = self._derived(text)
            if parse_expression(text).columns <= self._in_serving:
                self._in_serving.add(name)

    def number(self, name: str) -> tf.Tensor:
        """Returns a number column, or a derived number or condition."""
        value = self._value(name)
        if not isinstance(value, tf.Tensor) or value.dtype != tf.float32:
            raise UserError(f"column {name!r} is text; a number is required.")
        return value

    def string(self, name: str) -> StringColumn:
        """Returns a column as text. Whole numbers have no point, others the fewest digits that keep them exact."""
        value = self._value(name)
        return value if isinstance(value, StringColumn) else number_as_text(value)

    def token(self, name: str) -> StringColumn:
        """Returns a column as tokens; a raw column that anything reads so already holds tokens."""
        column = self.string(name)
        return column if name in self._raw else StringColumn(self.tokens(column.values), column.present)

    def tokens(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns texts as tokens, in the spelling that stands for each."""
        return token_tensor(texts, self.config.decimal)

    def vector(self, column: RawColumn) -> tf.Tensor:
        """Returns a vector column; a row without exactly `width` numbers is missing."""
        if column.name not in self._inputs:
            return tf.fill([self.batch_size, column.width], _MISSING)
        sparse = self._inputs[column.name]
        every_row_fits = _is_dense(sparse, self.batch_size, column.width)
        of_all = lambda: tf.reshape(sparse.values, [self.batch_size, column.width])  # noqa: E731
        dense = tf.cond(every_row_fits, of_all, lambda: self._vectors_that_fit(sparse, column.width))
        return tf.where(tf.math.is_finite(dense), dense, _MISSING)

    def _vectors_that_fit(self, sparse: tf.SparseTensor, width: int) -> tf.Tensor:
        """Returns float32 [batch, width]; rows with another number of values are NaN."""
        rows, positions = sparse.indices[:, 0], sparse.indices[:, 1]
        lengths = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, self.batch_size)
        fits = (positions < width) & tf.equal(tf.gather(lengths, rows), width)
        kept = tf.sparse.retain(sparse, fits)
        dense = tf.scatter_nd(kept.indices, kept.values, [self.batch_size, width])
        return tf.where(tf.equal(lengths, width)[:, tf.newaxis], dense, _MISSING)

    def elements(self, name: str, *, numbers: bool) -> tf.RaggedTensor:
        """Returns the lists of a column: one ragged row of float32 or string each, NaN or "" for missing elements.

        Of a history, these are the events that the history declares, whatever else a request contains.

        Args:
            name: A raw column of lists.
            numbers: Whether to return numbers; text stays text. Otherwise numbers become text, as in `string`.
        """
        column = self._raw.get(name)
        if column is None or not column.many:
            raise UserError(f"column {name!r} is not a list.{did_you_mean(name, self._inputs)}")
        lists = self._lists_of(column)
        history = history_of(name, self.config.history)
        if history is not None:
            lists = self._events_of(history, lists)
        if column.type == "string":
            return lists.with_values(self.tokens(lists.values)) if column.token else lists
        values = tf.where(tf.math.is_finite(lists.values), lists.values, _MISSING)
        return lists.with_values(values if numbers else number_as_text(values).values)

    def _lists_of(self, column: RawColumn) -> tf.RaggedTensor:
        """Returns the lists of a column as they are parsed, empty ones if it is absent."""
        if column.name in self._inputs:
            sparse = self._inputs[column.name]
            return tf.RaggedTensor.from_value_rowids(
                sparse.values, sparse.indices[:, 0], self.batch_size, validate=False
            )
        nothing = tf.zeros([0], _DTYPES[column.type])
        return tf.RaggedTensor.from_row_lengths(nothing, tf.zeros([self.batch_size], tf.int64), validate=False)

    def _events_of(self, history: str, lists: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the elements of the events that are old enough, not too old, and among the last `max_length`."""
        if history not in self._events:
            declared = self.config.history[history]
            ages = self._lists_of(self._raw[age_column(f"{history}.")])
            seconds = ages.flat_values
            counts = (seconds > 0) & (seconds >= declared.delay / 1e6)
            if declared.longest is not None:
                counts &= seconds <= declared.longest / 1e6
            positions = tf.ragged.range(ages.row_lengths())
            positions = rows_where(positions, counts)
            self._events[history] = positions[:, -declared.max_length :]
        positions = self._events[history]
        rows = positions.value_rowids()
        there = positions.values < tf.gather(lists.row_lengths(), rows)
        missing = tf.constant([""] if lists.dtype == tf.string else [_MISSING], lists.dtype)
        where = tf.where(there, tf.gather(lists.row_starts(), rows) + positions.values + 1, 0)
        return positions.with_values(tf.gather(tf.concat([missing, lists.flat_values], 0), where))

    @cached_property
    def row_id(self) -> tf.Tensor:
        """The row number that ingest assigned: int64 [batch], -1 if there is none."""
        return self._dense([RAW_ROW_ID], tf.constant(-1, tf.int64))[:, 0]

    @cached_property
    def train_row(self) -> tf.Tensor:
        """The row number of a row of the train split: int64 [batch], -1 for any other row."""
        return self._dense([RAW_TRAIN_ROW], tf.constant(-1, tf.int64))[:, 0]

    def of_serving(self) -> dict[str, tf.Tensor | StringColumn]:
        """Returns, by name, the columns that need no training-only column; without vectors and lists."""
        return {name: value for name, value in self._values.items() if name in self._in_serving}

    def _value(self, name: str) -> tf.Tensor | StringColumn:
        if name in self._lists:
            raise UserError(f"column {name!r} is a list; a single value is required.")
        if name not in self._values:
            raise UserError(f"no column {name!r}.{did_you_mean(name, self._values)}")
        return self._values[name]

    def _derived(self, text: str) -> tf.Tensor | StringColumn:
        expression = parse_expression(text)
        lists = lists_in(expression)
        read: dict[str, Value | PastColumn] = {
            name: self._past(name) if name in lists else self._value(name) for name in expression.columns
        }
        return derived_value(expression, read or self._values)

    def _past(self, name: str) -> PastColumn:
        if name not in self._pasts:
            ages = age_column(name)
            values = self.elements(name, numbers=self._raw[name].type != "string")
            self._pasts[name] = PastColumn(values, values if name == ages else self._past(ages).values)
        return self._pasts[name]

    def _read(self, columns: Iterable[RawColumn]) -> None:
        numbers = [column.name for column in columns if column.type == "number" and not column.many]
        strings = {column.name: column.token for column in columns if column.type == "string" and not column.many}
        if numbers:
            matrix = self._dense(numbers, tf.constant(_MISSING))
            matrix = tf.where(tf.math.is_finite(matrix), matrix, _MISSING)
            self._values.update(zip(numbers, tf.unstack(matrix, num=len(numbers), axis=1), strict=True))
        for is_token in (True, False):
            names = [name for name, token in strings.items() if token == is_token]
            if names:
                self._values.update(zip(names, self._texts(names, tokens=is_token), strict=True))

    def _texts(self, names: list[str], *, tokens: bool) -> list[StringColumn]:
        matrix = self._dense(names, tf.constant(""))
        values = self.tokens(matrix) if tokens else matrix
        both = [tf.unstack(cells, num=len(names), axis=1) for cells in (values, tf.not_equal(values, ""))]
        return [StringColumn(*column) for column in zip(*both, strict=True)]

    def _dense(self, names: list[str], default: tf.Tensor) -> tf.Tensor:
        """Returns columns as one matrix: [batch, columns]. Uses a few ops in total, not a few per column.

        If a cell has several values, which `raw_schema` does not allow, the last one is used.
        """
        shape = tf.stack([self.batch_size, len(names)])
        found = [(position, self._inputs[name]) for position, name in enumerate(names) if name in self._inputs]
        if not found:
            return tf.fill(shape, default)
        counts = tf.concat(tf.shape_n([sparse.values for _, sparse in found], tf.int64), 0)
        rows = tf.concat([sparse.indices for _, sparse in found], 0)[:, :1]
        columns = group_of_each(counts)
        if len(found) < len(names):
            columns = tf.gather(tf.constant([position for position, _ in found], tf.int64), columns)
        indices = tf.concat([rows, columns[:, tf.newaxis]], 1)
        values = tf.concat([sparse.values for _, sparse in found], 0)
        cells = tf.SparseTensor(indices, values, shape)
        return tf.ensure_shape(tf.sparse.to_dense(cells, default, validate_indices=False), [None, len(names)])


def derived_value(expression: Expression, columns: Mapping[str, Value | PastColumn]) -> Value:
    """Returns a derived column as features receive it: a number that is not finite is missing, and so is an empty text.

    Args:
        columns: The columns that it reads, or any other column if it reads none.
    """
    value = compute_expression(expression, columns)
    if isinstance(value, StringColumn):
        text = tf.where(value.present, value.values, "")
        return StringColumn(text, tf.not_equal(text, ""))
    return tf.where(tf.math.is_finite(value), value, _MISSING)


def _is_dense(sparse: tf.SparseTensor, rows: tf.Tensor, width: int) -> tf.Tensor:
    """Returns whether each row of a sparse tensor, whose indices are in order, has `width` values: bool [].

    It is enough to check the total number of values and the positions of the first and last value of each row.
    """

    def each_in_its_place() -> tf.Tensor:
        numbers = tf.range(rows)
        firsts = tf.gather(sparse.indices, numbers * width)
        lasts = tf.gather(sparse.indices, numbers * width + (width - 1))
        first_column, last_column = tf.zeros_like(numbers), tf.fill([rows], tf.constant(width - 1, tf.int64))
        is_first = tf.reduce_all(tf.equal(firsts, tf.stack([numbers, first_column], axis=1)))
        return is_first & tf.reduce_all(tf.equal(lasts, tf.stack([numbers, last_column], axis=1)))

    as_many = tf.equal(tf.size(sparse.values, tf.int64), rows * width)
    return tf.cond(as_many, each_in_its_place, lambda: tf.constant(value=False))


def number_as_text(number: tf.Tensor) -> StringColumn:
    present = ~tf.math.is_nan(number)
    whole = tf.equal(number, tf.floor(number)) & (tf.abs(number) < 2.0**63)
    as_integer = tf.strings.as_string(tf.cast(tf.where(whole, number, 0.0), tf.int64))
    text = tf.where(whole, as_integer, _shortest_exact(number))
    return StringColumn(tf.where(present, text, ""), present)


def _shortest_exact(number: tf.Tensor) -> tf.Tensor:
    """Formats a number with the fewest digits, 6 to 9, that parse to the same float32."""
    text = tf.strings.as_string(number, precision=9, shortest=True)
    for precision in (8, 7, 6):
        shorter = tf.strings.as_string(number, precision=precision, shortest=True)
        text = tf.where(tf.equal(tf.strings.to_number(shorter), number), shorter, text)
    return text
