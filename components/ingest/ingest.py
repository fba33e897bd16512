"""Converts raw files to split, sharded TFRecords, and accounts for every row: read = written + quarantined + left out.

A worker processes one read task of about 64 MB at a time: a part of a large file, or several small files. It writes a
chunk of records per split, and its counts. A read task depends only on the files, so the number of workers does not
change the records. The hash of every written row is kept until the end, to count the rows that are in two splits.
"""

import glob
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from absl import logging
from tfx.dsl.io import fileio

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import read_json
from fullpass.base.json_text import to_json_text
from fullpass.base.redact import redact, redact_tree
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.read_tasks import ReadTask, check_tasks, spread
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file
from fullpass.components.ingest.readers.readable import EmptyFileError
from fullpass.components.ingest.readers.row_hash import equality_hashes
from fullpass.components.ingest.readers.rows import WHOLE, BadRow, Reading, RowBatch
from fullpass.components.ingest.splitting.assign import GAP, NO_SPLIT, columns_of_split
from fullpass.components.ingest.splitting.hash_runs import HashRun, RunWriter, check_overlaps, count_overlaps
from fullpass.components.ingest.writing.encode import encode_features, examples
from fullpass.components.ingest.writing.manifest import (
    MANIFEST,
    QUARANTINE,
    FileCount,
    HistoryCount,
    Manifest,
    digest_of_rows,
    left_out_hint,
)
from fullpass.components.ingest.writing.record_writer import PENDING, ChunkWriter, JoinChunks, publish
from fullpass.components.ingest.writing.shards import WrittenChunk
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, ROW_BITS
from fullpass.preprocessing.values.shown_cells import text_at
from fullpass.trainer.input.raw_column_files import raw_layout, stored_rows, write_rows
from fullpass.trainer.records.column_files import ColumnFile, ColumnWriter, publish_columns

_MOST_COLUMN_BYTES = 0.5
"""Columns take at most half the bytes of the records. Those of long texts take more, and parsing these costs little."""
_MOST_RECORD_BYTES = 64 << 10
"""Mean bytes of a record up to which columns are written: 2,700 numbers. Batches of wider tables have few rows,
and a column takes the time of 500 rows, whatever their number."""
_QUARANTINE_SCHEMA = pa.schema(
    {"file": pa.string(), "row": pa.int64(), "column": pa.string(), "reason": pa.string(), "text": pa.string()}
)


def ingest_files(ingestions: Sequence[Ingestion], pipeline: beam.Pipeline) -> None:
    """Reads every file on Beam workers and leaves finished shards and counts in the pending folders.

    Args:
        ingestions: Spans of one source, or the whole source; they differ only in files, folder, span and cuts.
    """
    tasks = spread(pipeline, [ingestion.files for ingestion in ingestions], ingestions[0].config.source)
    chunks = tasks | "Ingest" >> beam.ParDo(_IngestTask(ingestions))
    _ = chunks | "Shards" >> JoinChunks(ingestions[0].layout)


def finish_ingestion(ingestion: Ingestion) -> Manifest:
    """Checks the counts, publishes the shards, and writes the quarantine and the manifest.

    Raises:
        UserError: Too many bad rows, a split without rows, or too many rows in two splits.
    """
    results = [read_json(path) for path in sorted(fileio.glob(f"{glob.escape(ingestion.folder)}/{PENDING}/*.json"))]
    check_tasks(results, len(ingestion.files))
    manifest = _sum(ingestion, results)
    bad = [BadRow(**row) for result in results for row in result["bad"]]
    _check_counts(manifest)
    _check_budget(ingestion, manifest, bad)
    if any(manifest.written.values()):
        _check_names(ingestion, {name for result in results for name in result["seen"]})
    if ingestion.span is None:
        check_matches({join.name: join.unmatched for join in manifest.joins}, manifest.read)
        # A single span may have no row for a split. A window must have one; Transform checks this.
        _check_splits(manifest)
    overlaps = count_overlaps(
        {s: [HashRun(**run) for r in results for run in r["hashes"][s]] for s in ingestion.splits}
    )
    ids = {row_id for overlap in overlaps for row_id in overlap.example or ()}
    check_overlaps(overlaps, ingestion.config.split_leakage, {row_id: manifest.locate(row_id) for row_id in ids})
    manifest = replace(manifest, overlaps=overlaps)
    for split in ingestion.splits:
        chunks = [WrittenChunk(**chunk) for result in results for chunk in result["chunks"][split]]
        record_bytes = publish(ingestion.folder, split, chunks, ingestion.layout)
        files = [ColumnFile(**file) for result in results for file in result["columns"].get(split, ())]
        whole = sum(file.record_bytes for file in files) == sum(record_bytes)
        if files and whole and _columns_pay(files):
            pending, layout = f"{ingestion.folder}/{PENDING}/{split}", raw_layout(ingestion.columns)
            publish_columns(ingestion.folder, pending, split, layout, files, record_bytes)
    if bad:
        table = pa.Table.from_pylist([asdict(row) | {"file": redact(row.file)} for row in bad], _QUARANTINE_SCHEMA)
        pq.write_table(table, f"{ingestion.folder}/{QUARANTINE}")
    with fileio.open(f"{ingestion.folder}/{MANIFEST}", "w") as f:
        f.write(to_json_text(redact_tree(asdict(manifest)), indent=1))
    fileio.rmtree(f"{ingestion.folder}/{PENDING}")
    megabytes = manifest.bytes_read / 2**20 / max(manifest.seconds, 1e-3)
    logging.info("Ingest: %s rows, %.0f rows/s, %.1f MB/s", manifest.read, manifest.rows_per_second, megabytes)
    return manifest


class _IngestTask(beam.DoFn):
    """Reads the rows of a task in C++ batches, and writes their records. A task is one Beam element."""

    def __init__(self, ingestions: Sequence[Ingestion]):
        self._ingestions = list(ingestions)

    def setup(self) -> None:
        self._rate = ReadRate([file for ingestion in self._ingestions for file in ingestion.files])

    def process(self, task: ReadTask) -> Iterator[tuple[str, WrittenChunk]]:
        ingestion = self._ingestions[task.source]
        result = ingest_task(ingestion, task, self._rate)
        folder = f"{ingestion.folder}/{PENDING}"
        fileio.makedirs(folder)
        with fileio.open(f"{folder}/{task.name}.json", "w") as f:
            f.write(to_json_text(result))
        for split, chunks in result["chunks"].items():
            yield from ((split, WrittenChunk(**chunk)) for chunk in chunks)


def ingest_task(ingestion: Ingestion, task: ReadTask, rate: ReadRate) -> dict[str, Any]:
    """Writes the rows of one task, and returns its counts, chunks and bad rows as JSON."""
    started = time.time()
    writers = {split: ChunkWriter(ingestion.folder, split, task.name, ingestion.layout) for split in ingestion.splits}
    runs = {s: RunWriter(f"{ingestion.folder}/{PENDING}/rows.by-content/{s}-{task.name}") for s in ingestion.splits}
    beside = _column_writers(ingestion, task.name)
    counts: list[dict[str, Any]] = []
    seen: set[str] = set()
    bad: list[BadRow] = []
    unmatched, left_out = Counter[str](), Counter[str]()
    histories: dict[str, Counter[str]] = {index.name: Counter() for index in ingestion.histories}
    writing = ThreadPoolExecutor(1)
    pending: list[Future[None]] = []
    try:
        for number, part in task.parts:
            reading = ingestion.reading(ingestion.files[number], part)
            written = Counter[str]()
            for batch in ingestion.batches(reading):
                rows_of_split = _assign(ingestion, number, reading, batch)
                written += Counter({split: len(rows) for split, rows in rows_of_split.items()})
                # A thread writes a batch while the next one is read: both run C++ without the GIL.
                _wait(pending)
                pending.append(writing.submit(_write, ingestion, number, batch, rows_of_split, writers, runs, beside))
                rate.report(reading.read, reading.consumed, reading.path.rsplit("/", 1)[-1])
            rows_read = reading.read + reading.malformed
            seen |= reading.seen
            unmatched += reading.unmatched
            left_out += reading.left_out
            for name, counted in reading.histories.items():
                histories[name] += counted
            rate.add_part(rows_read, reading.file.size if part == WHOLE else reading.consumed)
            unusable = reading.take_bad()
            bad += unusable
            counts.append(
                {
                    "file": number,
                    "read": rows_read,
                    "written": written,
                    "quarantined": len(unusable),
                    "left_out": reading.left_out.total(),
                }
            )
        _wait(pending)
    finally:
        writing.shutdown()
        for split in ingestion.splits:
            writers[split].close()
            runs[split].close()
        for writer in beside.values():
            writer.close()
    return {
        **task.place,
        "seconds": [started, time.time()],
        "counts": counts,
        "written": {split: writer.rows for split, writer in writers.items()},
        "chunks": {split: [asdict(chunk) for chunk in writer.chunks] for split, writer in writers.items()},
        "columns": {split: [asdict(file) for file in writer.files] for split, writer in beside.items()},
        "hashes": {split: [asdict(run) for run in writer.runs] for split, writer in runs.items()},
        "bad": [asdict(row) for row in bad],
        "seen": sorted(seen),
        "unmatched": unmatched,
        "left_out": left_out,
        "histories": histories,
    }


def _column_writers(ingestion: Ingestion, prefix: str) -> dict[str, ColumnWriter]:
    """Returns the writer of the columns of each split; none of images, nor of records in another order."""
    if ingestion.layout.seed is not None or any(column.image for column in ingestion.columns):
        return {}
    return {split: ColumnWriter(f"{ingestion.folder}/{PENDING}/{split}", prefix) for split in ingestion.splits}


def _wait(pending: list[Future[None]]) -> None:
    while pending:
        pending.pop().result()


def _assign(ingestion: Ingestion, index: int, reading: Reading, batch: RowBatch) -> dict[str, np.ndarray]:
    """Returns the positions of the usable rows of each split that has any, int64; other rows are added to `reading`."""
    rows, arrays, good = batch
    split_of_row = ingestion.split_of_rows(ingestion.first_file + index, reading.file, rows, arrays)
    for row in np.flatnonzero(good & (split_of_row == NO_SPLIT)):
        columns = columns_of_split(ingestion.config.split)
        text = "-".join(text_at(rows.table.column(column), int(row)) for column in columns)
        reading.add_bad(int(rows.numbers[row]), ", ".join(columns) or None, "fits no split", text)
    if in_gap := int((good & (split_of_row == GAP)).sum()):
        reading.left_out[_IN_GAP] += in_gap
    found = {split: np.flatnonzero(good & (split_of_row == i)) for i, split in enumerate(ingestion.splits)}
    return {split: positions for split, positions in found.items() if len(positions)}


def _columns_pay(files: Sequence[ColumnFile]) -> bool:
    rows, stored, records = (sum(getattr(file, of) for file in files) for of in ("rows", "bytes", "record_bytes"))
    return bool(stored <= _MOST_COLUMN_BYTES * records and records <= _MOST_RECORD_BYTES * rows)


def _write(
    ingestion: Ingestion,
    index: int,
    batch: RowBatch,
    rows_of_split: Mapping[str, np.ndarray],
    writers: Mapping[str, ChunkWriter],
    runs: Mapping[str, RunWriter],
    beside: dict[str, ColumnWriter],
) -> None:
    """Writes the rows at some positions of a batch, by split."""
    rows, arrays, _ = batch
    row_ids = (ingestion.first_file + index << ROW_BITS) + rows.numbers
    features = encode_features({column.name: arrays[column.name] for column in ingestion.columns})
    encoded = examples(features, encode_features({RAW_ROW_ID: pa.array(row_ids)}))
    content = equality_hashes(features)
    stored = stored_rows(ingestion.columns, arrays, row_ids, encoded) if beside else None
    for split, positions in rows_of_split.items():
        writers[split].write(encoded.take(pa.array(positions)))
        if stored is not None and split in beside:
            write_rows(beside[split], stored.take(pa.array(positions)))
            if not _columns_pay(beside[split].files):
                del beside[split]  # nothing is published of a split that lacks some rows
        runs[split].write(content[positions], row_ids[positions])


def _sum(ingestion: Ingestion, results: Sequence[dict]) -> Manifest:
    reasons = Counter(row["reason"] for result in results for row in result["bad"])
    left_out = sum((Counter(result["left_out"]) for result in results), Counter[str]())
    counts = [Counter[str]() for _ in ingestion.files]  # keys: split names, _READ, _BAD and _LEFT
    for count in (count for result in results for count in result["counts"]):
        counts[count["file"]] += Counter({_READ: count["read"], _BAD: count["quarantined"], **count["written"]})
        counts[count["file"]][_LEFT] += count["left_out"]
    by_file = tuple(
        FileCount(
            file.path, count[_READ], {split: count[split] for split in ingestion.splits}, count[_BAD], count[_LEFT]
        )
        for file, count in zip(ingestion.files, counts, strict=True)
    )
    bytes_read = sum(file.size for file in ingestion.files)
    return Manifest(
        files=tuple(file.path for file in ingestion.files),
        read=sum(count[_READ] for count in counts),
        written={split: sum(result["written"][split] for result in results) for split in ingestion.splits},
        quarantined=dict(reasons.most_common()),
        rows_quarantined=reasons.total(),
        bytes_read=bytes_read,
        by_file=by_file,
        rows_digest=digest_of_rows(by_file, bytes_read, ingestion.first_file),
        seconds=max(result["seconds"][1] for result in results) - min(result["seconds"][0] for result in results),
        first_file=ingestion.first_file,
        joins=tuple(
            j.count(ingestion.span, sum(r["unmatched"].get(j.name, 0) for r in results)) for j in ingestion.joins
        ),
        histories=tuple(
            HistoryCount(
                h.name,
                h.files,
                h.events,
                **{key: sum(r["histories"][h.name].get(key, 0) for r in results) for key in ("cut", "without")},
            )
            for h in ingestion.histories
        ),
        left_out=dict(left_out.most_common()),
        label_files=ingestion.forecast.files if ingestion.forecast else (),
    )


_SHOWN_REASONS = 3
"""Reasons for bad rows in the error, the most frequent ones; the quarantine has all."""
_READ, _BAD, _LEFT = "rows read", "rows quarantined", "rows left out"  # cannot be split names, which have no blanks
_IN_GAP = "in the gap before a later split (data.split.gap)"


def _check_counts(manifest: Manifest) -> None:
    """Checks that no row was lost, neither in a file nor in a split, whose records are counted independently."""
    for count in manifest.by_file:
        if count.read != sum(count.written.values()) + count.quarantined + count.left_out:
            raise RuntimeError(f"rows were lost: read is not written + quarantined + left out in {count}")
    for split, rows in manifest.written.items():
        if rows != sum(count.written[split] for count in manifest.by_file):
            raise RuntimeError(f"rows were lost: split {split!r} holds {rows} records, in {manifest.by_file}")
    if sum(manifest.left_out.values()) != sum(count.left_out for count in manifest.by_file):
        raise RuntimeError(f"rows were lost: left out for {manifest.left_out}, in {manifest.by_file}")
    if manifest.rows_quarantined != sum(count.quarantined for count in manifest.by_file):
        raise RuntimeError(f"rows were lost: {manifest.rows_quarantined} quarantined, in {manifest.by_file}")


def _check_names(ingestion: Ingestion, seen: set[str]) -> None:
    """Checks that columns occur in a row, if the source has no other way to detect a misspelled name.

    These are the columns of lists, and all columns of JSON lines without spans: a span may lack an optional key.
    """
    every = ingestion.config.source.format == "jsonl" and ingestion.span is None
    read = ingestion.reading(ingestion.files[0], WHOLE).columns  # neither joined columns nor lists of events
    names = [name for name, column in read.items() if column.many or every]
    try:
        if not names or columns_of(ingestion.files[0], ingestion.config.source) is not None:
            return
    except EmptyFileError:  # a format with columns
        return
    for name in names:
        if name not in seen:
            what = "list" if read[name].many else "column"
            known = sorted({*(columns_of_file(ingestion.files[0], ingestion.config.source) or ()), *seen})
            raise UserError(
                f"data.source.path: no row of {ingestion.files[0].path} has a {what} {name!r}."
                f"{did_you_mean(name, known)} Correct the feature's `column`, or remove the feature."
            )


def check_matches(unmatched: Mapping[str, int], read: int) -> None:
    """Checks that some row has a match in each joined table.

    Args:
        unmatched: Number of rows without a match, of the rows read, by join.

    Raises:
        UserError: None has.
    """
    for name, rows in unmatched.items():
        if read and rows == read:
            raise UserError(
                f"data.joins.{name}: none of the {read:,} rows has a match. Do the keys have the same "
                "spelling, and the dates the same zone? `fullpass check --data` shows some keys of both."
            )


def _check_splits(manifest: Manifest) -> None:
    for split, rows in manifest.written.items():
        if not rows:
            counts = ", ".join(f"{name} {n:,}" for name, n in manifest.written.items())
            raise UserError(
                f"data.split: no row fell into split {split!r} ({counts}).{left_out_hint(manifest.left_out)} Change "
                "the ratios, values or paths."
            )


def _check_budget(ingestion: Ingestion, manifest: Manifest, bad: Sequence[BadRow]) -> None:
    budget = ingestion.config.bad_rows
    count, total = manifest.rows_quarantined, manifest.read
    if total == 0:
        if ingestion.span is not None:  # a gap; the window must have rows, and SpansOfWindow checks this
            return
        raise UserError(f"data.source.path: no rows in {', '.join(manifest.files)}; only a header line, or nothing.")
    over = count > budget.max_fraction * total or (budget.max_rows is not None and count > budget.max_rows)
    if not over:
        return
    allowed = f"{budget.max_fraction:.2%} of rows" + (f" and {budget.max_rows}" if budget.max_rows is not None else "")
    lines = [f"{count:,} of {total:,} rows cannot be used; data.bad_rows allows {allowed}. Most frequent reasons:"]
    by_reason = Counter((row.reason, row.column) for row in bad)
    for (reason, column), n in by_reason.most_common(_SHOWN_REASONS):
        first = next(row for row in bad if (row.reason, row.column) == (reason, column))
        lines.append(f"  {n:,} x {first.why}; first: {first.shown}")
    lines.append("Declare a missing token (data.source.missing), fix the file, or raise data.bad_rows.")
    raise UserError("\n".join(lines))
