"""Sorts tokens by descending count, and ties by descending bytes, in bounded memory: an external merge sort."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.analysis.token_counts import TokenCounts
from fullpass.preprocessing.analysis.token_files import TOKENS, new_path, open_file

_ORDER = [("count", "descending"), ("token", "descending")]
_MERGED_ROWS = 1 << 20
_FEWEST_ROWS, _MOST_ROWS = 1 << 10, 1 << 16


@dataclass(frozen=True)
class Ranked:
    """The most frequent tokens.

    Attributes:
        num_rows: Number of tokens.
        total: Sum of the counts of all tokens, including the omitted ones.
        table: The tokens; None if they are in files.
        parts: Files of sorted tokens, as Arrow IPC streams; each token is in exactly one file.
    """

    num_rows: int
    total: int
    table: pa.Table | None
    parts: tuple[str, ...] = ()

    def tables(self) -> Iterator[pa.Table]:
        """Yields the tokens in order, as tables of bounded size with the schema TOKENS."""
        if self.table is not None:
            yield from map(pa.Table.from_batches, ([batch] for batch in self.table.to_batches(_MOST_ROWS)))
            return
        left = self.num_rows
        for table in _merged([_read(path) for path in self.parts]):
            yield table.slice(0, left)
            left -= min(left, table.num_rows)
            if not left:
                return


def rank(counts: TokenCounts, *, min_count: int, top_k: int | None, folder: str) -> Ranked:
    """Returns the `top_k` most frequent tokens among those with a count of at least `min_count`.

    Args:
        min_count: Smallest accepted count.
        top_k: Largest number of tokens; None for no limit.
        folder: For temporary files.
    """
    kept, total = 0, 0
    parts: list[str] = []
    in_files = bool(counts.files)
    table = None
    for part in counts.tables(folder):
        total += pc.sum(part["count"]).as_py() or 0
        table = part.filter(pc.greater_equal(part["count"], min_count)).sort_by(_ORDER)
        table = table if top_k is None else table.slice(0, top_k)
        kept += table.num_rows
        if in_files:
            parts.append(_write(table, new_path(folder)))
    return Ranked(kept if top_k is None else min(kept, top_k), total, None if in_files else table, tuple(parts))


def _write(table: pa.Table, path: str) -> str:
    with open_file(path, "wb") as file, pa.ipc.new_stream(file, TOKENS) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=_FEWEST_ROWS)
    return path


def _read(path: str) -> Iterator[pa.RecordBatch]:
    with open_file(path, "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader


def _merged(parts: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
    """Yields the rows of sorted parts in order; only a few rows of each part are in memory."""
    rows = max(_FEWEST_ROWS, min(_MOST_ROWS, _MERGED_ROWS // max(len(parts), 1)))
    heads = [(_next(part, rows), part) for part in parts]
    while heads := [(head, part) for head, part in heads if head.num_rows]:
        # The unread rows of a part sort after the last row of its head. So every row down to the largest of these last
        # rows is already in memory.
        boundary = max(_row(head, head.num_rows - 1) for head, _ in heads)
        cuts = [_rows_from(head, boundary) for head, _ in heads]
        yield pa.concat_tables([head.slice(0, cut) for (head, _), cut in zip(heads, cuts, strict=True)]).sort_by(_ORDER)
        heads = [
            (head.slice(cut) if cut < head.num_rows else _next(part, rows), part)
            for (head, part), cut in zip(heads, cuts, strict=True)
        ]


def _next(part: Iterator[pa.RecordBatch], rows: int) -> pa.Table:
    """Returns the next rows of a part: at least `rows`, fewer at its end, and an empty table after it."""
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) < rows and (batch := next(part, None)) is not None:
        batches.append(batch)
    return pa.Table.from_batches(batches, TOKENS).combine_chunks()


def _rows_from(head: pa.Table, boundary: tuple[int, bytes]) -> int:
    """Returns the number of rows that are not smaller than `boundary`."""
    return bisect_left(range(head.num_rows), True, key=lambda index: _row(head, index) < boundary)


def _row(table: pa.Table, index: int) -> tuple[int, bytes]:
    return table["count"][index].as_py(), table["token"][index].as_py()
