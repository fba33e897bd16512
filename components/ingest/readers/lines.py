"""Reads text files in blocks: chunks of bytes, transcoded to UTF-8, and ranges of whole lines."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import IO, TypeVar

import numpy as np

from fullpass.components.ingest.readers.csv_records import LONGEST_LINE, Block, blocks
from fullpass.components.ingest.readers.rows import BATCH_ROWS, PART_BYTES, WHOLE, FilePart, Reading, planned
from fullpass.components.ingest.sources.storage import is_compressed, open_binary, open_raw, state_of
from fullpass.preprocessing.values.byte_batches import gather

CHUNK_BYTES = 4 << 20
"""Bytes that are read and parsed at a time: large for Arrow's parser, small beside the memory of a worker."""
_BOM = codecs.BOM_UTF8
_MARK_UNDECODABLE = "fullpass-mark-undecodable"
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
TOO_LONG = f"a line longer than {LONGEST_LINE >> 20} MB"
_CHUNKS_PER_PART = 16
"""Steps in which the parts of a file are found, so that a part is at most a sixteenth larger than wanted."""
_Value = TypeVar("_Value")


def chunks(
    path: str, part: FilePart, encoding: str, reading: Reading | None = None, *, size: int | None = None
) -> Iterator[bytes]:
    """Yields the bytes of a part of a text file, in UTF-8 and without a byte order mark, and counts them in `reading`.

    A byte without a character in the encoding becomes a byte that is not UTF-8. It makes its row a bad row, and the
    rest of the file stays readable.

    Args:
        size: Bytes of a chunk, before they are transcoded; by default `CHUNK_BYTES`.
    """
    with open_binary(path) as stream:
        found = _range(stream, part.begin or 0, part.end, size or CHUNK_BYTES)
        if reading is not None and not is_compressed(path):
            found = _counted(found, reading)
        if not is_utf8(encoding):
            found = _transcoded(found, encoding)
        first = next(found, b"")
        yield first if part.begin else first.removeprefix(_BOM)
        yield from found


def is_utf8(encoding: str) -> bool:
    """Returns whether text in `encoding` is already UTF-8."""
    return codecs.lookup(encoding).name in ("utf-8", "ascii", "utf-8-sig")


def line_parts(
    path: str,
    size: int,
    *,
    count: Callable[[bytes], int] = lambda data: data.count(b"\n"),
    splittable: Callable[[bytes], bool] = lambda data: True,
) -> list[FilePart]:
    """Returns ranges of whole lines of about `PART_BYTES`, found in one pass over the file.

    Args:
        count: Returns the number of lines in a chunk of whole lines.
        splittable: Returns whether a chunk of whole lines can be cut after any line. One False keeps the file whole.
    """
    state = state_of(path)
    if is_compressed(path) or size < 2 * PART_BYTES:
        return planned([WHOLE], state)
    parts: list[FilePart] = []
    begin, end, first, line = 0, 0, 1, 1
    with open_raw(path) as stream:
        for block in _whole_lines(_range(stream, 0, None, PART_BYTES // _CHUNKS_PER_PART), 1):
            if block.too_long or not splittable(block.data):
                return planned([WHOLE], state)
            end, line = end + len(block.data), line + count(block.data)
            if end - begin >= PART_BYTES:
                parts.append(FilePart(begin, end, first))
                begin, first = end, line
    return planned([*parts, FilePart(begin, end, first)] if end > begin else parts, state)


def without_first_lines(blocks: Iterator[bytes], lines: int) -> Iterator[bytes]:
    """Returns the blocks of a file without its first lines. A line ends with a line feed, or a lone carriage return.

    Raises:
        ValueError: A skipped line is longer than 64 MB.
    """
    start = b""
    for block in blocks:
        start += block
        end = next(islice(_LINE_END.finditer(start), lines - 1, None), None)
        if end is not None:
            return chain([start[end.end() :]], blocks)
        if len(start) > LONGEST_LINE:
            raise ValueError(TOO_LONG)
    return iter(())


def _whole_lines(chunks: Iterable[bytes], first_line: int) -> Iterator[Block]:
    return blocks(chunks, "", quoting=False, first_line=first_line, max_cell=0)


def _range(stream: IO[bytes], begin: int, end: int | None, size: int) -> Iterator[bytes]:
    if begin:
        stream.seek(begin)
    left = end - begin if end is not None else None
    while left is None or left > 0:
        block = stream.read(size if left is None else min(size, left))
        if not block:
            return
        left = left - len(block) if left is not None else None
        yield block


def _counted(blocks: Iterable[bytes], reading: Reading) -> Iterator[bytes]:
    for block in blocks:
        reading.consumed += len(block)
        yield block


def _transcoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_MARK_UNDECODABLE)
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", _MARK_UNDECODABLE)
    yield decoder.decode(b"", final=True).encode("utf-8", _MARK_UNDECODABLE)


def _mark_undecodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replaces undecodable or unencodable input by a byte that is not UTF-8 (an error handler of codecs).

    Python's surrogateescape raises for bytes below 128, as in half a character of UTF-16, and for lone surrogates.
    """
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    if isinstance(error, UnicodeEncodeError):
        return b"\xff" * (error.end - error.start), error.end
    raise error


codecs.register_error(_MARK_UNDECODABLE, _mark_undecodable)


def parsed_lines(
    path: str, reading: Reading, encoding: str, parse: Callable[[int, bytes], _Value | None]
) -> Iterator[tuple[list[_Value], np.ndarray]]:
    """Yields lists of the parsed lines of a part, with their numbers in the file, int64 [lines].

    Args:
        parse: Takes the number and the bytes of a line; returns None for a line that is no row.
    """
    lines = numbered_lines(path, reading, encoding)
    parsed = ((n, value, len(line)) for n, line in lines if (value := parse(n, line)) is not None)
    for batch in gather(parsed, itemgetter(2), rows=BATCH_ROWS):
        yield [value for _, value, _ in batch], np.array([number for number, _, _ in batch], dtype=np.int64)


def numbered_lines(path: str, reading: Reading, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a part without their line breaks, with their numbers in the file."""
    number = reading.part.first_row
    for block in _whole_lines(chunks(path, reading.part, encoding, reading), number):
        if block.too_long:
            reading.add_malformed(number, TOO_LONG, block.data.decode("utf-8", "replace"))
            number += 1
            continue
        lines = block.data.split(b"\n")
        for line in lines[:-1] if block.data.endswith(b"\n") else lines:
            yield number, line.removesuffix(b"\r")
            number += 1
