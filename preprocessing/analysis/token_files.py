"""Files of counted tokens, in buckets by a hash of the token: a reader can read some buckets without the others.

    section of bucket 0, 1 ...   tokens and counts as an Arrow IPC stream; zero bytes if the bucket is empty
    ends of the sections         BUCKETS offsets, uint64
    tokens of the sections       BUCKETS numbers, uint64
    checksums of the sections    BUCKETS of CRC-32C, uint32
    magic                        b"fullpass token counts 1\\n"

Integers are little-endian.
"""

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

import fsspec
import google_crc32c
import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.base.errors import UserError

BUCKETS = 1024
"""Sections of a file, by the hash of the token: files are summed section by section."""
TOKENS = pa.schema({"token": pa.large_binary(), "count": pa.int64()})
READ_BYTES = 32 << 20
"""Neighboring buckets are read together up to this total size over all files; a larger bucket is read alone."""
_MAGIC = b"fullpass token counts 1\n"
_INDEX_BYTES = BUCKETS * (8 + 8 + 4) + len(_MAGIC)
"""Bytes of the head: place (uint64), size (uint64) and checksum (uint32) of each section."""


def open_file(path: str, mode: str) -> IO[bytes]:
    """Opens a file at a path or URL in binary mode: with TensorFlow if it supports the URL scheme, else with fsspec."""
    if "://" in path and path.partition("://")[0] in tf.io.gfile.get_registered_schemes():
        return cast(IO[bytes], tf.io.gfile.GFile(path, mode))
    return cast(IO[bytes], fsspec.open(path, mode).open())


def new_path(folder: str) -> str:
    """Creates the folder if needed, and returns a path in it that no other worker writes to."""
    tf.io.gfile.makedirs(folder)
    return f"{folder}/tokens-{uuid.uuid4().hex}"


def by_bucket(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields the non-empty buckets in order, with their tokens and counts."""
    tokens = table["token"].to_numpy()
    # TensorFlow guarantees that this hash never changes, so files of other releases have the same buckets.
    buckets = tf.strings.to_hash_bucket_fast(tf.constant(tokens, tf.string), BUCKETS).numpy()
    order = np.argsort(buckets, kind="stable")
    ordered, ends = table.take(order), np.cumsum(np.bincount(buckets, minlength=BUCKETS))
    for bucket in np.unique(buckets).tolist():
        start = int(ends[bucket - 1]) if bucket else 0
        yield bucket, ordered.slice(start, int(ends[bucket]) - start)


def write_buckets(path: str, buckets: Iterator[tuple[int, pa.Table]]) -> None:
    """Writes a file. buckets: in order, each at most once, with its tokens and counts."""
    ends, tokens, checksums = np.zeros(BUCKETS, "<u8"), np.zeros(BUCKETS, "<u8"), np.zeros(BUCKETS, "<u4")
    written = 0
    with open_file(path, "wb") as file:
        for bucket, table in buckets:
            section = _encoded(table)
            file.write(section)
            written += len(section)
            ends[bucket], tokens[bucket], checksums[bucket] = written, table.num_rows, google_crc32c.value(section)
        file.write(np.maximum.accumulate(ends).tobytes() + tokens.tobytes() + checksums.tobytes() + _MAGIC)


class TokenFile:
    """A file of counted tokens.

    Attributes:
        sizes: Bytes of each bucket, int64 [BUCKETS].

    Raises:
        UserError: The index at the end of the file is damaged.
    """

    def __init__(self, path: str):
        """Reads the index."""
        self.path = path
        with open_file(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            index = self._bytes(max(file.tell() - _INDEX_BYTES, 0), _INDEX_BYTES)
        if not index.endswith(_MAGIC) or len(index) != _INDEX_BYTES:
            raise self._damaged()
        self._ends = np.frombuffer(index, "<u8", BUCKETS).astype(np.int64)
        self._checksums = np.frombuffer(index, "<u4", BUCKETS, BUCKETS * 16)
        self.tokens = int(np.frombuffer(index, "<u8", BUCKETS, BUCKETS * 8).sum())
        self.sizes = np.diff(self._ends, prepend=0)

    def read(self, first: int, last: int) -> list[pa.Table | None]:
        """Returns the buckets from `first` up to but excluding `last`; None for an empty bucket.

        Raises:
            UserError: A bucket is damaged.
        """
        begin = int(self._ends[first] - self.sizes[first])
        content = self._bytes(begin, int(self._ends[last - 1]) - begin)
        found: list[pa.Table | None] = []
        place = 0
        for bucket in range(first, last):
            section = content[place : place + int(self.sizes[bucket])]
            place += len(section)
            if len(section) != self.sizes[bucket] or (
                section and self._checksums[bucket] != google_crc32c.value(section)
            ):
                raise self._damaged()
            found.append(pa.ipc.open_stream(section).read_all() if section else None)
        return found

    def check(self) -> None:
        """Raises a UserError if a bucket is damaged."""
        for _ in read_buckets([self]):
            pass

    def _bytes(self, begin: int, count: int) -> bytes:
        with open_file(self.path, "rb") as file:
            file.seek(begin)
            return file.read(count)

    def _damaged(self) -> UserError:
        return UserError(
            f"{self.path} is damaged: its content differs from the token counts that were written. Run again."
        )


def read_buckets(files: Sequence[TokenFile]) -> Iterator[tuple[int, list[pa.Table]]]:
    """Yields the non-empty buckets in order, each with its tables from the files that have tokens in it."""
    sizes = np.sum([file.sizes for file in files], axis=0)
    first = 0
    while first < BUCKETS:
        fitting = int(np.searchsorted(np.cumsum(sizes[first:]), READ_BYTES, side="right"))
        last = min(first + max(fitting, 1), BUCKETS)
        of_files = [file.read(first, last) for file in files]
        for bucket in range(first, last):
            tables = [tables[bucket - first] for tables in of_files]
            if present := [table for table in tables if table is not None]:
                yield bucket, present
        first = last


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TOKENS) as writer:
        writer.write_table(table.combine_chunks())
    return cast(Any, sink.getvalue()).to_pybytes()
