"""Batches bounded by rows and by bytes, so memory depends neither on the size nor on the number of cells."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_BYTES = 32 << 20
"""Largest size of a batch; a larger row is a batch of its own."""

_Item = TypeVar("_Item")
_Columns = TypeVar("_Columns", pa.Table, pa.RecordBatch)


def gather(
    items: Iterable[_Item], size: Callable[[_Item], int], *, rows: int, most_bytes: int = BATCH_BYTES
) -> Iterator[list[_Item]]:
    """Yields items in lists, in order, each as long as the limits allow.

    Args:
        rows: Largest number of items in a list.
        most_bytes: Largest number of bytes in a list of more than one item.
    """
    held: list[_Item] = []
    held_bytes = 0
    for item in items:
        item_bytes = size(item)
        if held and (len(held) == rows or held_bytes + item_bytes > most_bytes):
            yield held
            held, held_bytes = [], 0
        held.append(item)
        held_bytes += item_bytes
    if held:
        yield held


def cut_batch(batch: _Columns, *, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[_Columns]:
    """Yields a table or record batch in slices, in order, each as long as the limits allow; see `gather`."""
    for part in row_ranges(batch, rows=rows, most_bytes=most_bytes):
        yield batch.slice(part.start, part.stop - part.start)


def row_ranges(batch: pa.Table | pa.RecordBatch, *, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[slice]:
    """Yields the row ranges of the slices of `cut_batch`."""
    total = batch.num_rows
    if batch.nbytes <= most_bytes and not any(map(pa.types.is_dictionary, batch.schema.types)):
        yield from (slice(start, min(start + rows, total)) for start in range(0, total, rows))
        return
    yield from byte_ranges(row_bytes(batch), rows=rows, most_bytes=most_bytes)


def byte_ranges(sizes: np.ndarray, *, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[slice]:
    """Yields ranges of rows, given the bytes of each, int64 [rows], in order, each as long as the limits allow.

    Example:
        >>> [part.stop for part in byte_ranges(np.array([4, 4, 4, 11, 1]), rows=2, most_bytes=10)]
        [2, 3, 4, 5]
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = min(max(fitting, start + 1), start + rows)
        yield slice(start, stop)
        start = stop


def row_bytes(batch: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Returns the bytes of the values of each row, int64 [rows]; dictionary columns count as decoded."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        sizes += _sizes(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return sizes


def object_bytes(value: Any) -> int:
    """Returns the approximate bytes of a Python object of a source: a text, a number, or a list or dict of them."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(object_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(object_bytes, value))
    return int(getattr(value, "nbytes", _NUMBER_BYTES))


_NUMBER_BYTES = 8
"""Bytes that a number counts for."""


def _sizes(column: pa.Array) -> np.ndarray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        of_value = np.append(_sizes(column.dictionary), 0)
        return of_value[column.indices.cast(pa.int64()).fill_null(len(of_value) - 1).to_numpy(zero_copy_only=False)]
    if kind in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()):
        return _whole(pc.binary_length(column))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        ends = np.cumsum(lengths := _whole(pc.list_value_length(column)))
        values = np.concatenate([[0], np.cumsum(_sizes(column.flatten()))])
        return values[ends] - values[ends - lengths]
    return np.full(len(column), -(-column.nbytes // max(len(column), 1)), dtype=np.int64)


def _whole(lengths: pa.Array) -> np.ndarray:
    return lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
