"""A real CSV file, spoilt at random, ingested, and counted by a second, slow reading of the same rules.

`python -m tests.components.ingest.corruptions 1000` tries as many and prints what became of them.
"""

import gzip
import random
import signal
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components.ingest.config import BadRows, HashSplit, IngestConfig, RandomSplit, RecordsConfig
from components.ingest.files import find_files, resolve_path
from components.ingest.ingest import Ingest, ingest_portion
from components.ingest.pace import Pace
from components.ingest.portions import Portion
from components.ingest.read import parts_of
from components.ingest.sources import CsvSource
from preprocessing.columns import RawColumn
from preprocessing.errors import UserError

TRIPS = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
COLUMNS = (RawColumn("company", "string"), RawColumn("fare", "number"), RawColumn("trip_start_hour", "number"))
_LINES = 200
_LONGEST_SECONDS = 20


@dataclass(frozen=True)
class Outcome:
    """What became of one file. refused: why it was not read at all, or None; then the counts are 0."""

    refused: str | None
    read: int = 0
    written: int = 0
    quarantined: int = 0
    reasons: tuple[str, ...] = ()


def sample() -> bytes:
    """Returns the header and the first rows, companies in quotes, some with a line break in them."""
    lines = Path(resolve_path(TRIPS, Path())).read_text().splitlines()[: _LINES + 1]
    place = lines[0].split(",").index("company")
    rows = [line.split(",") for line in lines]
    for i, row in enumerate(rows[1:]):
        row[place] = f'"{row[place]}, ""{i}""{chr(10) if i % 9 == 0 else " "}ok"' if i % 3 == 0 else row[place]
    return ("\n".join(",".join(row) for row in rows) + "\n").encode()


def corrupted(data: bytes, seed: int) -> tuple[bytes, str]:
    """Returns spoilt bytes, and the ending of the name of a file that holds them."""
    rng = random.Random(seed)
    compress = seed % 5 == 4
    for _ in range(rng.randint(0 if compress else 1, 4)):
        data = rng.choice(_WAYS)(bytearray(data), rng)
    if not compress:
        return data, ".csv"
    packed = bytearray(gzip.compress(data, 6, mtime=0))
    if rng.random() < 0.7:
        packed = bytearray(rng.choice((_flip, _cut_file))(packed, rng))
    return bytes(packed), ".csv.gz"


def _flip(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 20)):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut_file(data: bytearray, rng: random.Random) -> bytes:
    return bytes(data[: rng.randrange(len(data) + 1)])


def _cut_lines(data: bytearray, rng: random.Random) -> bytes:
    lines = bytes(data).split(b"\n")
    for _ in range(rng.randint(1, 10)):
        i = rng.randrange(len(lines))
        lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]
    return b"\n".join(lines)


def _insert(*what: bytes) -> Callable[[bytearray, random.Random], bytes]:
    def insert(data: bytearray, rng: random.Random) -> bytes:
        for _ in range(rng.randint(1, 15)):
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.choice(what)
        return bytes(data)

    return insert


def _remove(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 15)):
        if data:
            at = rng.randrange(len(data))
            del data[at : at + rng.randint(1, 30)]
    return bytes(data)


_WAYS = (
    _flip,
    _cut_file,
    _cut_lines,
    _remove,
    _insert(b",", b",,", b";", b"\t"),
    _insert(b'"', b'""', b'",', b',"', b'"\n'),
    _insert(b"\n", b"\r", b"\r\n", b"\n\n"),
    _insert("Müller".encode("latin-1"), "Wien".encode("utf-16"), "東京".encode("shift_jis"), b"\xef\xbb\xbf"),
    _insert(b"\x00", b"\xff\xfe", b"\x1a", b"\x1f", b"\xf0\x9f\x9a\x95"),
    _insert(b"1e999", b"-", b"9" * 400, b"NaN", b"0x1F"),
)


def ingested(data: bytes, ending: str, folder: Path, seed: int) -> Outcome:
    """Ingests bytes as a file, and returns what was counted; the records are counted from their files."""
    path = folder / f"trips{ending}"
    path.write_bytes(data)
    source = CsvSource(format="csv", path=str(path))
    split = HashSplit(method="hash") if seed % 2 else RandomSplit(method="random")
    config = IngestConfig(source=source, split=split, records=RecordsConfig(), bad_rows=BadRows(max_fraction=1.0))
    ingest = Ingest(config, find_files(str(path), str), ("train", "eval"), COLUMNS, str(folder / "out"), False)
    try:
        parts = parts_of(ingest.files[0], source)
        pace = Pace(ingest.files)
        portions = [Portion(((0, part),), i, last=i == len(parts) - 1) for i, part in enumerate(parts)]
        results = [ingest_portion(ingest, portion, pace) for portion in portions]
    except UserError as error:
        if str(path) not in str(error):
            raise AssertionError(f"the message does not name the file: {error}") from error
        return Outcome(str(error))
    pieces = [piece["path"] for r in results for of_split in r["pieces"].values() for piece in of_split]
    return Outcome(
        refused=None,
        read=sum(count["read"] for r in results for count in r["counts"]),
        written=sum(_count_records(Path(piece).read_bytes()) for piece in pieces),
        quarantined=sum(len(r["bad"]) for r in results),
        reasons=tuple(row["reason"] for r in results for row in r["bad"]),
    )


def _count_records(data: bytes) -> int:
    count = at = 0
    while at < len(data):
        at += struct.unpack_from("<Q", data, at)[0] + 16
        count += 1
    return count


def rows_in(data: bytes, ending: str) -> int | None:
    """Returns the rows below the header, counted byte by byte; None where nothing can be read."""
    try:
        data = _unpacked(data, ending)
    except (OSError, EOFError, zlib.error, struct.error):
        return None
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    return max(sum(1 for _ in _records(text)) - 1, 0)


def _unpacked(data: bytes, ending: str) -> bytes:
    return gzip.decompress(data) if ending.endswith(".gz") else data


def _records(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = _record_end(text, at)
        if text[at:end].strip("\r\n"):
            yield text[at:end]
        at = end


def _record_end(text: str, at: int) -> int:
    """Returns where the record that begins at `at` ends, its line break included."""
    line_end = _line_end(text, at)
    while True:
        if text[at : at + 1] == '"':
            closing = _closing(text, at)
            if closing is None:
                return line_end  # never closed: the line is spoilt, and the next one is read
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


def _closing(text: str, opening: int) -> int | None:
    """Returns the place after the quote that closes a cell."""
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


def try_one(data: bytes, seed: int, folder: Path) -> Outcome:
    """Ingests one spoilt file and holds the counts against the second reading.

    Raises:
        AssertionError: A row is not accounted for, or the file was refused though it can be read.
        TimeoutError: It took too long.
    """
    spoilt, ending = corrupted(data, seed)

    def stop(*_):
        raise TimeoutError(f"seed {seed} took more than {_LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_LONGEST_SECONDS)
    try:
        outcome = ingested(spoilt, ending, folder, seed)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    expected = rows_in(spoilt, ending)
    header = data[: data.index(b"\n") + 1]
    if outcome.refused is not None:
        assert expected is None or not _unpacked(spoilt, ending).startswith(header), (seed, outcome)
    else:
        assert outcome.read == outcome.written + outcome.quarantined, (seed, outcome)
        assert outcome.read == expected, (seed, expected, outcome)
    return outcome


def main(count: int) -> None:
    """Tries `count` seeds and prints what became of them."""
    data = sample()
    failures: list[str] = []
    refused, reasons, rows = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = try_one(data, seed, Path(folder))
            except Exception as error:  # every failure is of interest here, and none may stop the others
                failures.append(f"seed {seed}: {type(error).__name__}: {error}")
                continue
        if outcome.refused is not None:
            refused[outcome.refused.partition(": ")[2][:60]] += 1
        rows.update(read=outcome.read, written=outcome.written, quarantined=outcome.quarantined)
        reasons.update(outcome.reasons)
    print(f"{count} files: {sum(refused.values())} refused, {len(failures)} failures; rows {dict(rows)}")
    print("refused:", *(f"  {n} x {why}" for why, n in refused.most_common()), sep="\n")
    print("bad rows:", *(f"  {n} x {why}" for why, n in reasons.most_common(12)), sep="\n")
    print("failures:", *failures, sep="\n")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
