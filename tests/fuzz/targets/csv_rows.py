"""Damages and ingests a real CSV file, and compares the row count with a second, slow parser of the same rules."""

import gzip
import random
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import Outcome, ingested
from tests.fuzz.damage import cut_file, cut_lines, damaged, flip, insert, remove

TRIPS = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
COLUMNS = (RawColumn("company", "string"), RawColumn("fare", "number"), RawColumn("trip_start_hour", "number"))
_LINES = 200


@lru_cache
def sample() -> bytes:
    """Returns the header and the first rows; some companies are quoted, and some of these contain a line break."""
    lines = Path(resolve_path(TRIPS, Path())).read_text().splitlines()[: _LINES + 1]
    place = lines[0].split(",").index("company")
    rows = [line.split(",") for line in lines]
    for i, row in enumerate(rows[1:]):
        row[place] = f'"{row[place]}, ""{i}""{chr(10) if i % 9 == 0 else " "}ok"' if i % 3 == 0 else row[place]
    return ("\n".join(",".join(row) for row in rows) + "\n").encode()


def corrupted(data: bytes, seed: int) -> tuple[bytes, str]:
    """Returns damaged bytes and the suffix of their file name."""
    rng = random.Random(seed)
    compress = seed % 5 == 4
    data = damaged(data, rng, _WAYS, least=0 if compress else 1)
    if not compress:
        return data, ".csv"
    packed = bytearray(gzip.compress(data, 6, mtime=0))
    if rng.random() < 0.7:
        packed = bytearray(rng.choice((flip, cut_file))(packed, rng))
    return bytes(packed), ".csv.gz"


_WAYS = (
    flip,
    cut_file,
    cut_lines,
    remove,
    insert(b",", b",,", b";", b"\t"),
    insert(b'"', b'""', b'",', b',"', b'"\n', b', "', b'" ,', b'\t"'),
    insert(b"\n", b"\r", b"\r\n", b"\n\n", b"\n,,,\n", b"\r\n, ,\r\n"),
    insert("Müller".encode("latin-1"), "Wien".encode("utf-16"), "東京".encode("shift_jis"), b"\xef\xbb\xbf"),
    insert(b"\x00", b"\xff\xfe", b"\x1a", b"\x1f", b"\xf0\x9f\x9a\x95"),
    insert(b"1e999", b"-", b"9" * 400, b"NaN", b"0x1F"),
)


def read_csv(data: bytes, ending: str, folder: Path, seed: int) -> Outcome:
    """Writes the bytes to a file and ingests it."""
    path = folder / f"trips{ending}"
    path.write_bytes(data)
    return ingested(CsvSource(format="csv", path=str(path), skip_empty=bool(seed % 2)), COLUMNS, folder, seed)


def rows_in(data: bytes, ending: str, *, skip_empty: bool = False) -> int | None:
    """Returns the number of rows below the header, counted character by character; None if decompression fails."""
    try:
        data = _unpacked(data, ending)
    except (OSError, EOFError, zlib.error, struct.error):
        return None
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    return max(sum(1 for _ in _records(text, skip_empty)) - 1, 0)


def _unpacked(data: bytes, ending: str) -> bytes:
    return gzip.decompress(data) if ending.endswith(".gz") else data


def _records(text: str, skip_empty: bool) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = _record_end(text, at)
        if text[at:end].strip(", \t\r\n" if skip_empty else "\r\n"):
            yield text[at:end]
        at = end


def _record_end(text: str, at: int) -> int:
    """Returns the end of the record that begins at `at`, including its line break."""
    line_end = _line_end(text, at)
    while True:
        at = _after_blanks(text, at)
        if text[at : at + 1] == '"':
            closing = _closing(text, at)
            if closing is None:
                return line_end  # an unclosed quote spoils only this line; the next line is read
            if any(c in "\r\n" for c in text[at:closing]):
                if closing < len(text) and text[closing] not in ",\r\n":
                    return line_end
                line_end = _line_end(text, closing)
            at = closing
        while at < len(text) and text[at] not in ",\r\n":
            at += 1
        if at >= len(text) or text[at] in "\r\n":
            return _line_end(text, at)
        at += 1


def _after_blanks(text: str, at: int) -> int:
    """Returns where a cell begins: at its quote, without the blanks before it, if it is surely a quoted cell."""
    opening = at + len(text[at:]) - len(text[at:].lstrip(" \t")) if text[at : at + 1] in (" ", "\t") else at
    closing = _closing(text, opening) if opening > at and text[opening : opening + 1] == '"' else None
    if closing is None:
        return at
    before, behind = text[opening : closing - 1].rstrip(" \t"), text[closing : _line_end(text, closing)]
    if "\n" in before or "\r" in before:
        sure = before[-1] not in ',\r\n"' and behind[:1] in ("", ",", "\r", "\n")
    else:
        sure = behind.lstrip(" \t")[:1] in ("", ",", "\r", "\n")
    return opening if sure else at


def _closing(text: str, opening: int) -> int | None:
    """Returns the position after the quote that closes a cell, or None."""
    at = opening + 1
    while at < len(text):
        if text[at] == '"':
            if text[at + 1 : at + 2] != '"':
                return at + 1
            at += 1
        at += 1
    return None


def _line_end(text: str, at: int) -> int:
    while at < len(text) and text[at] not in "\r\n":
        at += 1
    return min(at + (2 if text[at : at + 2] == "\r\n" else 1), len(text))


def try_one(seed: int, folder: Path) -> str:
    """Ingests one damaged file and compares the row count with the second parser."""
    data = sample()
    spoilt, ending = corrupted(data, seed)
    outcome = read_csv(spoilt, ending, folder, seed)
    expected = rows_in(spoilt, ending, skip_empty=bool(seed % 2))
    if outcome.refused is not None:
        header = data[: data.index(b"\n") + 1]
        assert expected is None or not _unpacked(spoilt, ending).startswith(header), outcome
    else:
        assert outcome.read == expected, (expected, outcome)
    return outcome.kind
