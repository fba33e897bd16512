"""Converts a table in memory to raw RecordBatches in the input layout of the analysis and the transform graph."""

from collections.abc import Iterator

import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.columns.raw_columns import (
    RAW_ROW_ID,
    RAW_TRAIN_ROW,
    RawColumn,
    raw_columns,
    row_columns,
    serving_columns,
)
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.raw_text import RawText

_TYPES = {"number": pa.float32(), "string": pa.large_binary(), "vector": pa.float32()}
BATCH_ROWS = 2048
"""Rows of a batch of the graph: the cost of a call is spread, and the columns of a wide table fit into memory."""


def raw_batches(
    config: PreprocessingConfig, table: pa.Table, text: RawText | None = None, *, serving: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a table as raw RecordBatches: a list per cell, empty if the value is missing.

    Args:
        table: Has the raw columns of `config` and any others, of any type that a source yields.
        text: Text options; by default those of a source without text options.
        serving: Whether to accept a table without the label and the other training-only columns.

    Raises:
        UserError: A column is absent or there twice, or a value does not fit its declaration, with its column and row.

    Example: `list(raw_batches(config, pa.table({"fare": [5.0, None]})))` is one batch with
        `fare: [[5.0], []]`.
    """
    needed = serving_columns(config) if serving else raw_columns(config)
    for name in sorted(needed.keys() - set(table.column_names)):
        raise UserError(
            f"The table has no column {name!r}, which the features read.{did_you_mean(name, table.column_names)}"
        )
    columns = list(raw_columns(config).values())
    for name in (column.name for column in columns if table.column_names.count(column.name) > 1):
        raise UserError(f"The table has the column {name!r} twice; rename one.")
    absent = row_columns(config)[1:]
    first = 0
    for batch in table.to_batches(BATCH_ROWS):
        arrays = [_raw_column(column, batch, text or RawText(), first) for column in columns]
        rows = pa.array([[row] for row in range(first, first + batch.num_rows)], pa.large_list(pa.int64()))
        names = [*(column.name for column in columns), RAW_ROW_ID, *absent]
        yield pa.RecordBatch.from_arrays([*arrays, rows, *(pa.nulls(len(rows), rows.type) for _ in absent)], names)
        first += batch.num_rows


def as_train_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns raw rows as rows of the train split: RAW_TRAIN_ROW holds their numbers."""
    kept = [name for name in batch.schema.names if name != RAW_TRAIN_ROW]
    numbers = batch.column(batch.schema.get_field_index(RAW_ROW_ID))
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in kept]
    return pa.RecordBatch.from_arrays([*arrays, numbers], [*kept, RAW_TRAIN_ROW])


def _raw_column(column: RawColumn, batch: pa.RecordBatch, text: RawText, first: int) -> pa.Array:
    layout = pa.large_list(_TYPES[column.type])
    index = batch.schema.get_field_index(column.name)
    if index < 0:
        return pa.nulls(batch.num_rows, layout)
    converted = convert_raw(batch.column(index), column, text)
    bad = converted.bad
    if bad.any():
        row = int(bad.argmax())
        value = batch.column(index)[row].as_py()
        raise UserError(f"column {column.name!r}, row {first + row}: {value!r} is {converted.reason}.")
    return converted.values.cast(layout)
