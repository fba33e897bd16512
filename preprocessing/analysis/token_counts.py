"""Token counts in bounded memory: a large number of distinct tokens is spilled to files, in hash buckets.

Memory holds at most MAX_TOKENS_IN_MEMORY tokens and MAX_BYTES_IN_MEMORY of a state, plus the working memory of summing
them. Files are summed bucket by bucket; neighboring buckets are read together up to READ_BYTES of `token_files`. Memory
therefore depends neither on the number of distinct tokens nor on the number of files, unless a single bucket, a
thousandth of all tokens, exceeds READ_BYTES.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.analysis.token_files import (
    TOKENS,
    TokenFile,
    by_bucket,
    new_path,
    open_file,
    read_buckets,
    write_buckets,
)

MAX_TOKENS_IN_MEMORY = 1 << 20
"""Distinct tokens of a state from which it is a file."""
MAX_BYTES_IN_MEMORY = 64 << 20
"""The same in bytes."""
_FILE = b"file of token counts"
_ORDER = [("count", "descending"), ("token", "descending")]
_MERGED_ROWS = 1 << 20
"""Rows of all sorted parts that a merge holds in memory."""
_FEWEST_ROWS = 1 << 10
"""Rows of one part that it holds at least."""
_MOST_ROWS = 1 << 16
"""Rows of one part that it holds at most."""


@dataclass
class TokenCounts:
    """Counts of tokens.

    Attributes:
        in_memory: Tables with the schema TOKENS; a token may be in several.
        files: Paths of files; a token may be in several.
    """

    in_memory: list[pa.Table] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def add(self, table: pa.Table, folder: str) -> None:
        """Adds counts; spills the counts in memory to a new file in `folder` when they exceed the limits."""
        self.in_memory.append(table)
        if _exceed_limits(self.in_memory[1:]):
            self.in_memory = [sums(self.in_memory)]
            if _exceed_limits(self.in_memory):
                self._spill(folder)

    def to_one_file(self, folder: str) -> None:
        """Merges the counts so that each token is in one place: in one table, or in one file if there are files."""
        self.in_memory = [sums(self.in_memory)] if self.in_memory else []
        if self.files and self.in_memory:
            self._spill(folder)
        if len(self.files) > 1:
            path = new_path(folder)
            write_buckets(path, self._buckets())
            self.files = [path]

    def distinct(self, folder: str) -> int:
        """Returns the number of distinct tokens. folder: for files."""
        self.to_one_file(folder)
        return TokenFile(self.files[0]).tokens if self.files else sum(table.num_rows for table in self.in_memory)

    def tables(self, folder: str) -> Iterator[pa.Table]:
        """Yields each token once, with the sum of its counts, in tables of bounded size. folder: for files."""
        if not self.files:
            yield sums(self.in_memory)
            return
        if self.in_memory:
            self.in_memory = [sums(self.in_memory)]
            self._spill(folder)
        gathered: list[pa.Table] = []
        for _, table in self._buckets():
            gathered.append(table)
            if _exceed_limits(gathered):
                yield pa.concat_tables(gathered)
                gathered = []
        if gathered:
            yield pa.concat_tables(gathered)

    def _buckets(self) -> Iterator[tuple[int, pa.Table]]:
        for bucket, tables in read_buckets([TokenFile(path) for path in self.files]):
            yield bucket, sums(tables) if len(tables) > 1 else tables[0]

    def _spill(self, folder: str) -> None:
        (table,) = self.in_memory
        path = new_path(folder)
        write_buckets(path, by_bucket(table))
        self.in_memory, self.files = [], [*self.files, path]


def _exceed_limits(tables: Sequence[pa.Table]) -> bool:
    rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
    return rows > MAX_TOKENS_IN_MEMORY or size > MAX_BYTES_IN_MEMORY


def merged(states: Sequence[TokenCounts], folder: str) -> TokenCounts:
    """Returns the counts of all states combined."""
    together = TokenCounts(files=[path for state in states for path in state.files])
    for table in (table for state in states for table in state.in_memory):
        together.add(table, folder)
    return together


def encode(counts: TokenCounts, folder: str) -> list[bytes]:
    """Returns a state as bytes: its tokens, or the path of its file."""
    counts.to_one_file(folder)
    if counts.files:
        return encode_file_reference(counts.files[0])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TOKENS) as writer:
        writer.write_table(sums(counts.in_memory))
    return [sink.getvalue().to_pybytes()]


def decode(values: Sequence[bytes]) -> TokenCounts:
    """Returns the state that `encode` encoded."""
    if (path := file_reference(values)) is not None:
        return TokenCounts(files=[path])
    return TokenCounts(in_memory=[pa.ipc.open_stream(values[0]).read_all()])


def file_reference(encoded: Sequence[bytes]) -> str | None:
    """Returns the path of the file of an encoded state of any accumulator; None if the bytes hold the whole state."""
    return encoded[1].decode() if len(encoded) == len(encode_file_reference("")) and encoded[0] == _FILE else None


def encode_file_reference(path: str) -> list[bytes]:
    """Returns the encoded state whose tokens are in a file."""
    return [_FILE, path.encode()]


def sums(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns each token once, with the sum of its counts."""
    if not tables:
        return TOKENS.empty_table()
    summed = pa.concat_tables(tables).group_by("token").aggregate([("count", "sum")])
    return summed.select(["token", "count_sum"]).rename_columns(TOKENS.names).cast(TOKENS)


@dataclass(frozen=True)
class Ranked:
    """The most frequent tokens.

    Attributes:
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
        for table in _in_order([_read(path) for path in self.parts]):
            yield table.slice(0, left)
            left -= min(left, table.num_rows)
            if not left:
                return


def rank(counts: TokenCounts, *, min_count: int, top_k: int | None, folder: str) -> Ranked:
    """Returns the `top_k` most frequent tokens among those with a count of at least `min_count`."""
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


def _in_order(parts: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
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
