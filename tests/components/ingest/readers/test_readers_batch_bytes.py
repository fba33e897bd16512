"""Readers yield batches bounded by bytes: 36 rows of 1 MB become several batches in every format, and none is lost."""

import gzip
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import ParquetSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from fullpass.trainer.records.record_files import record_batches
from tests.components.ingest.row_files import WRITTEN, source_of, write_rows
from tests.record_files import write_records

ROWS = 36
CELL = "x" * (1 << 20)


def distinct_parquet(folder):
    return write_rows(folder, "parquet", [{"text": CELL[:-1] + chr(65 + i % 60)} for i in range(ROWS)], group=ROWS)


def gzipped(folder, format, lines):
    with gzip.open(folder / "a.gz", "wt", compresslevel=1) as file:
        file.writelines(line + "\n" for line in lines)
    return source_of(format=format, path="x"), SourceFile(str(folder / "a.gz"), None, 0, "")


FORMS = {
    "parquet of distinct cells": distinct_parquet,
    "gzipped json lines": lambda folder: gzipped(folder, "jsonl", [json.dumps({"text": CELL})] * ROWS),
    "gzipped text": lambda folder: gzipped(folder, "text", [CELL] * ROWS),
}
"""Further forms of formats."""
CASES = [(name, None) for name in (*WRITTEN, *FORMS)]
CASES += [(name, "to_hash") for name in ("tfrecord", "parquet of distinct cells", "gzipped json lines", "sql")]


@pytest.mark.integration
@pytest.mark.parametrize(("name", "whole"), CASES)
def test_batches_are_bounded_by_bytes(tmp_path, name, whole):
    write = FORMS.get(name, partial(write_rows, format=name, rows=[{"text": CELL}] * ROWS, group=ROWS))
    source, file = write(tmp_path)
    numbers = []
    for part in parts_of(file, source):
        reading = Reading(file, {"text": RawColumn("text", "string")}, part, all_columns=whole)
        for rows in read_rows(reading, source):
            cells = rows.table.column("text").to_pylist()
            assert sum(len(cell[0] if isinstance(cell, list) else cell) for cell in cells) <= BATCH_BYTES
            numbers += rows.numbers.tolist()
    first = 2 if name in ("csv", "excel", "images") else 1  # below the names
    assert numbers == list(range(first, first + ROWS))


def test_rows_of_usual_size_stay_together(tmp_path):
    table = pa.table({"a": np.arange(40_000), "b": [f"row {i}" for i in range(40_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=50_000)
    file = SourceFile(str(tmp_path / "a.parquet"), None, 0, "")
    reading = Reading(file, {name: RawColumn(name, "string") for name in "ab"})
    batches = list(read_rows(reading, ParquetSource(format="parquet", path="x")))
    assert [len(rows.numbers) for rows in batches] == [16_384, 16_384, 40_000 - 2 * 16_384]
    assert pa.concat_tables([rows.table for rows in batches]).equals(table)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_records_are_read_in_batches_bounded_by_bytes(tmp_path, suffix):
    records = [bytes([i]) * n for i, n in enumerate((400, 400, 400, 1100, 100, 100, 100, 100))]
    path = write_records(tmp_path / f"a.tfrecord{suffix}", records)
    batches = list(record_batches(path, rows=3, most_bytes=1000))
    assert [len(batch) for batch in batches] == [2, 1, 1, 3, 1]
    assert [record for batch in batches for record in batch] == records
