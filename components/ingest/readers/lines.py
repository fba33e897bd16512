"""Text files in pieces: chunks of bytes of any encoding as UTF-8, and ranges that begin and end with a line."""

import codecs
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from components.ingest.reading import PART_BYTES, WHOLE, Part, Reading
from components.ingest.storage import is_compressed, open_binary, open_raw

CHUNK_BYTES = 4 << 20
_BOM = codecs.BOM_UTF8
_MAX_LINE = 64 << 20


def chunks(path: str, part: Part, encoding: str, reading: Reading | None = None) -> Iterator[bytes]:
    """Yields the bytes of a part of a text file, in UTF-8 and without a byte order mark, and counts them in `reading`.

    A byte that the encoding has no character for is passed on as it is, which is not UTF-8, so that it spoils its row
    and not the file.
    """
    with open_binary(path) as stream:
        pieces = _range(stream, part.begin or 0, part.end)
        if reading is not None and not is_compressed(path):
            pieces = _counted(pieces, reading)
        if not is_utf8(encoding):
            pieces = _transcoded(pieces, encoding)
        first = next(pieces, b"")
        yield first if part.begin else first.removeprefix(_BOM)
        yield from pieces


def is_utf8(encoding: str) -> bool:
    """Whether text in `encoding` is UTF-8 already."""
    return codecs.lookup(encoding).name in ("utf-8", "ascii", "utf-8-sig")


def line_parts(
    path: str, size: int, *, count: Callable[[bytes], int], splittable: Callable[[bytes], bool]
) -> list[Part]:
    """Returns ranges of about `PART_BYTES` that begin and end with a line, found in one pass over the file.

    Args:
        path: the file.
        size: of the file, in bytes.
        count: lines in whole lines of bytes.
        splittable: whether whole lines of bytes can be cut anywhere between lines; one False keeps the file whole.
    """
    if is_compressed(path) or size < 2 * PART_BYTES:
        return [WHOLE]
    parts: list[Part] = []
    begin, end, first, line = 0, 0, 1, 1
    with open_raw(path) as stream:
        for data in _line_chunks(_range(stream, 0, None, PART_BYTES // 16)):
            if not splittable(data):
                return [WHOLE]
            end, line = end + len(data), line + count(data)
            if end - begin >= PART_BYTES:
                parts.append(Part(begin, end, first))
                begin, first = end, line
    return [*parts, Part(begin, end, first)] if end > begin else parts


def _line_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the pieces cut after their last line break."""
    rest = b""
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        elif len(rest) + len(piece) > _MAX_LINE:
            raise ValueError(f"a line is longer than {_MAX_LINE >> 20} MB")
        else:
            rest += piece
    if rest:
        yield rest


def _range(stream: IO[bytes], begin: int, end: int | None, size: int = CHUNK_BYTES) -> Iterator[bytes]:
    if begin:
        stream.seek(begin)
    left = end - begin if end is not None else None
    while left is None or left > 0:
        piece = stream.read(size if left is None else min(size, left))
        if not piece:
            return
        left = left - len(piece) if left is not None else None
        yield piece


def _counted(pieces: Iterable[bytes], reading: Reading) -> Iterator[bytes]:
    for piece in pieces:
        reading.consumed += len(piece)
        yield piece


def _transcoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "surrogateescape")
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogateescape")


def numbered_lines(path: str, reading: Reading, encoding: str) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a part without their line breaks, with their numbers in the file."""
    number = reading.part.first_row
    for data in _line_chunks(chunks(path, reading.part, encoding, reading)):
        lines = data.split(b"\n")
        for line in lines[:-1] if data.endswith(b"\n") else lines:
            yield number, line.removesuffix(b"\r")
            number += 1
