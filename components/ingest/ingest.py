"""Raw files to split, sharded TFRecords, with every row accounted for: read = written + quarantined.

A worker reads a portion at a time, of about 64 MB: a part of a large file, or several small files. It leaves a piece
of records per split, and its counts. What is in a portion depends on the files alone, so the records are the same
however many workers there are.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tfx.dsl.io import fileio

from components.ingest.config import IngestConfig
from components.ingest.encode import encode
from components.ingest.files import SourceFile
from components.ingest.read import parts_of, read
from components.ingest.reading import PART_BYTES, WHOLE, BadRow, Part, Reading, Rows
from components.ingest.shards import Layout, Piece
from components.ingest.split import NO_SPLIT, assign, split_columns
from components.ingest.write import PENDING, JoinPieces, PieceWriter, publish
from preprocessing.columns import RAW_ROW_ID, RawColumn
from preprocessing.convert import convert
from preprocessing.errors import UserError, blame
from preprocessing.progress import report

MANIFEST = "ingest.json"
QUARANTINE = "quarantine.parquet"
ROW_BITS = 40
"""A row id is the file's number shifted by this many bits, plus the row in the file."""

_QUARANTINE_SCHEMA = pa.schema(
    {
        "file": pa.string(),
        "row": pa.int64(),
        "column": pa.string(),
        "reason": pa.string(),
        "text": pa.string(),
    }
)


@dataclass(frozen=True)
class Ingest:
    """One ingestion: what to read, as what, and where to.

    splits: names, in order. columns: raw columns of the examples. gzip: compress the records.
    """

    config: IngestConfig
    files: tuple[SourceFile, ...]
    splits: tuple[str, ...]
    columns: tuple[RawColumn, ...]
    folder: str
    gzip: bool

    @property
    def layout(self) -> Layout:
        """Of the files written."""
        return self.config.records.layout(gzip=self.gzip)


@dataclass(frozen=True)
class Manifest:
    """What became of every row.

    files: paths, in the order of row ids. written: rows per split. quarantined: rows per reason.
    """

    files: tuple[str, ...]
    read: int
    written: dict[str, int]
    quarantined: dict[str, int]
    bytes_read: int

    @property
    def rows_written(self) -> int:
        """Rows in all splits."""
        return sum(self.written.values())

    @property
    def rows_quarantined(self) -> int:
        """Rows kept aside."""
        return sum(self.quarantined.values())

    def locate(self, row_id: int) -> str:
        """Returns `file, row n` for a row id given at ingest."""
        index, row = row_id >> ROW_BITS, row_id & (1 << ROW_BITS) - 1
        return f"{self.files[index]}, row {row}"


def run(ingest: Ingest, pipeline: beam.Pipeline) -> None:
    """Reads every file on Beam workers and leaves finished shards and counts in the pending folder."""
    pieces = (
        pipeline
        | "Files" >> beam.Create(list(_groups(ingest.files)))
        | "Portions" >> beam.FlatMap(_portions, ingest)
        | "Spread" >> beam.Reshuffle()
        | "Ingest" >> beam.ParDo(_IngestPortion(ingest))
    )
    _ = pieces | "Shards" >> JoinPieces(ingest.folder, ingest.layout)


def finish(ingest: Ingest) -> Manifest:
    """Checks the counts, publishes the shards, writes the quarantine and the manifest.

    Raises:
        UserError: Too many bad rows, or a split without rows.
    """
    results = [_read_json(path) for path in sorted(fileio.glob(f"{ingest.folder}/{PENDING}/*.json"))]
    _check_portions(ingest, results)
    manifest = _sum(ingest, results)
    bad = [BadRow(**row) for result in results for row in result["bad"]]
    if manifest.read != manifest.rows_written + manifest.rows_quarantined:
        raise RuntimeError(f"rows were lost: read is not written + quarantined in {manifest}")
    _check_budget(ingest, manifest, bad)
    for split in ingest.splits:
        if not manifest.written[split]:
            counts = ", ".join(f"{name} {n:,}" for name, n in manifest.written.items())
            raise UserError(
                f"data.split: no row fell into split {split!r} ({counts}). Change the ratios, values or paths."
            )
        pieces = [Piece(**piece) for result in results for piece in result["pieces"][split]]
        publish(ingest.folder, split, pieces, ingest.layout)
    if bad:
        table = pa.Table.from_pylist([asdict(row) for row in bad], _QUARANTINE_SCHEMA)
        pq.write_table(table, f"{ingest.folder}/{QUARANTINE}")
    with fileio.open(f"{ingest.folder}/{MANIFEST}", "w") as f:
        f.write(json.dumps(asdict(manifest), indent=1))
    fileio.rmtree(f"{ingest.folder}/{PENDING}")
    return manifest


def read_manifest(folder: str) -> Manifest:
    """Returns the manifest of an Examples artifact that Ingest wrote."""
    fields = _read_json(f"{folder}/{MANIFEST}")
    return Manifest(**{**fields, "files": tuple(fields["files"])})


@dataclass(frozen=True)
class Portion:
    """What one worker reads at a time.

    parts: number of a file, and the part of it. last: whether the end of the last file is in it. number: of the portion
    among those of its first file.
    """

    parts: tuple[tuple[int, Part], ...]
    number: int
    last: bool

    @property
    def name(self) -> str:
        """Unique; sorts in the order of the source."""
        return f"{self.parts[0][0]:07d}-{self.number:07d}"


def _groups(files: Sequence[SourceFile]) -> Iterator[tuple[int, ...]]:
    """Yields the numbers of files that are read together: neighbours of together at most `PART_BYTES`."""
    group: list[int] = []
    size = 0
    for number, file in enumerate(files):
        alone = not file.size or size + file.size > PART_BYTES  # the size of a query is not known
        if group and alone:
            yield tuple(group)
            group, size = [], 0
        group.append(number)
        size += file.size or PART_BYTES
    yield tuple(group)


def _portions(group: tuple[int, ...], ingest: Ingest) -> Iterator[Portion]:
    if len(group) > 1:
        yield Portion(tuple((number, WHOLE) for number in group), 0, last=True)
        return
    parts = parts_of(ingest.files[group[0]], ingest.config.source)
    for i, part in enumerate(parts):
        yield Portion(((group[0], part),), i, last=i == len(parts) - 1)


class _IngestPortion(beam.DoFn):
    """Reads a portion in C++ batches and writes its records; one Beam element per portion, not per row."""

    def __init__(self, ingest: Ingest):
        self._ingest = ingest

    def process(self, portion: Portion) -> Iterator[tuple[str, Piece]]:
        result = ingest_portion(self._ingest, portion)
        folder = f"{self._ingest.folder}/{PENDING}"
        fileio.makedirs(folder)
        with fileio.open(f"{folder}/{portion.name}.json", "w") as f:
            f.write(json.dumps(result))
        for split, pieces in result["pieces"].items():
            yield from ((split, Piece(**piece)) for piece in pieces)


def ingest_portion(ingest: Ingest, portion: Portion) -> dict[str, Any]:
    """Writes the rows of one portion; returns its counts, pieces and bad rows as JSON."""
    split_only = {name: RawColumn(name, "string") for name in split_columns(ingest.config.split)}
    columns = split_only | {column.name: column for column in ingest.columns}
    writers = {split: PieceWriter(ingest.folder, split, portion.name, ingest.layout) for split in ingest.splits}
    rows_read = 0
    bad: list[BadRow] = []
    try:
        for number, part in portion.parts:
            reading = Reading(ingest.files[number], columns, part)
            for rows in read(reading, ingest.config.source):
                rows_read += len(rows.numbers)
                _write_rows(ingest, number, reading, rows, writers)
                report(rows_read, None, "rows", reading.path.rsplit("/", 1)[-1])
            rows_read += reading.malformed
            bad += reading.take_bad()
    finally:
        for writer in writers.values():
            writer.close()
    return {
        "files": [portion.parts[0][0], portion.parts[-1][0]],
        "number": portion.number,
        "last": portion.last,
        "read": rows_read,
        "written": {split: writer.rows for split, writer in writers.items()},
        "pieces": {split: [asdict(piece) for piece in writer.pieces] for split, writer in writers.items()},
        "bad": [asdict(row) for row in bad],
    }


def _check_portions(ingest: Ingest, results: Sequence[dict]) -> None:
    """Checks that there is a result for every portion: a lost one would be lost rows."""
    expected: tuple[int, int] = (0, 0)
    for result in results:
        first, last = result["files"]
        if (first, result["number"]) != expected:
            break
        expected = (last + 1, 0) if result["last"] else (first, result["number"] + 1)
    if expected != (len(ingest.files), 0):
        raise RuntimeError(f"portion {expected} of {len(ingest.files)} files left no result")


def _write_rows(
    ingest: Ingest,
    index: int,
    reading: Reading,
    rows: Rows,
    writers: dict[str, PieceWriter],
) -> None:
    arrays, good = _convert_columns(ingest, reading, rows)
    places = _places(ingest, index, reading.file, rows)
    for row in np.flatnonzero(good & (places == NO_SPLIT)):
        column = getattr(ingest.config.split, "column", None)
        text = str(rows.table.column(column)[int(row)].as_py()) if column else ""
        reading.add_bad(int(rows.numbers[row]), column, "fits no split", text)
    arrays[RAW_ROW_ID] = pa.array((index << ROW_BITS) + rows.numbers)
    examples = encode(arrays)
    for position, split in enumerate(ingest.splits):
        mine = good & (places == position)
        if mine.any():
            writers[split].write(examples.filter(pa.array(mine)).to_pylist())


def _convert_columns(ingest: Ingest, reading: Reading, rows: Rows) -> tuple[dict[str, pa.Array], np.ndarray]:
    source = ingest.config.source
    strip, decimal = getattr(source, "strip", False), getattr(source, "decimal", ".")
    good = np.ones(len(rows.numbers), dtype=bool)
    arrays = {}
    for raw in ingest.columns:
        column = rows.table.column(raw.name).combine_chunks()
        with blame(reading.path):
            converted = convert(column, raw, strip=strip, missing=source.missing_of(raw.name), decimal=decimal)
        arrays[raw.name] = converted.flat
        bad = converted.bad
        for row in np.flatnonzero(bad).tolist():
            cell = column[row].as_py()
            text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
            reading.add_bad(int(rows.numbers[row]), raw.name, converted.reason_of(row), text)
        good &= ~bad
    return arrays, good


def _places(ingest: Ingest, index: int, file: SourceFile, rows: Rows) -> np.ndarray:
    if file.split is not None:
        return np.full(len(rows.numbers), ingest.splits.index(file.split))
    return assign(ingest.config.split, rows.table, rows.numbers, file_index=index)


def _sum(ingest: Ingest, results: Sequence[dict]) -> Manifest:
    reasons = Counter(row["reason"] for result in results for row in result["bad"])
    written = {split: sum(result["written"][split] for result in results) for split in ingest.splits}
    return Manifest(
        files=tuple(file.path for file in ingest.files),
        read=sum(result["read"] for result in results),
        written=written,
        quarantined=dict(reasons.most_common()),
        bytes_read=sum(file.size for file in ingest.files),
    )


def _check_budget(ingest: Ingest, manifest: Manifest, bad: Sequence[BadRow]) -> None:
    budget = ingest.config.bad_rows
    count, total = manifest.rows_quarantined, manifest.read
    if total == 0:
        raise UserError(f"data.source.path: no rows in {', '.join(manifest.files)}; only a header line, or nothing.")
    over = count > budget.max_fraction * total or (budget.max_rows is not None and count > budget.max_rows)
    if not over:
        return
    allowed = f"{budget.max_fraction:.2%} of rows" + (f" and {budget.max_rows}" if budget.max_rows is not None else "")
    lines = [f"{count:,} of {total:,} rows cannot be used; data.bad_rows allows {allowed}. Commonest reasons:"]
    by_reason = Counter((row.reason, row.column) for row in bad)
    for (reason, column), n in by_reason.most_common(3):
        first = next(row for row in bad if (row.reason, row.column) == (reason, column))
        where = f" in column {column!r}" if column else ""
        lines.append(f"  {n:,} x {reason}{where}; first: {first.file}, row {first.row}: {first.text[:80]!r}")
    lines.append("Declare a missing token (data.source.missing), mend the file, or raise data.bad_rows.")
    raise UserError("\n".join(lines))


def _read_json(path: str) -> dict:
    with fileio.open(path, "r") as f:
        return json.loads(f.read())
