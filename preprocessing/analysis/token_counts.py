"""Token counts in bounded memory: a large number of distinct tokens is spilled to files, in hash buckets.

Memory holds at most MAX_TOKENS_IN_MEMORY tokens and MAX_BYTES_IN_MEMORY of a state, plus the working memory of summing
them. Files are summed bucket by bucket; neighboring buckets are read together up to READ_BYTES of `token_files`. Memory
therefore depends neither on the number of distinct tokens nor on the number of files, unless a single bucket, a
thousandth of all tokens, exceeds READ_BYTES.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fullpass.preprocessing.analysis.token_files import (
    TOKENS,
    TokenFile,
    by_bucket,
    new_path,
    read_buckets,
    write_buckets,
)

MAX_TOKENS_IN_MEMORY, MAX_BYTES_IN_MEMORY = 1 << 20, 64 << 20
_FILE = b"file of token counts"


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
        later = self.in_memory[1:]
        if (
            sum(one.num_rows for one in later) > MAX_TOKENS_IN_MEMORY
            or sum(one.nbytes for one in later) > MAX_BYTES_IN_MEMORY
        ):
            self.in_memory = [sums(self.in_memory)]
            if self.in_memory[0].num_rows > MAX_TOKENS_IN_MEMORY or self.in_memory[0].nbytes > MAX_BYTES_IN_MEMORY:
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
            if (
                sum(one.num_rows for one in gathered) > MAX_TOKENS_IN_MEMORY
                or sum(one.nbytes for one in gathered) > MAX_BYTES_IN_MEMORY
            ):
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
