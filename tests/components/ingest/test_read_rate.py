"""The progress reports while files are read, by one process and by several."""

import time

import pyarrow as pa
import pyarrow.parquet
import pytest

from fullpass.base import progress
from fullpass.components.ingest import read_rate
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import CsvSource, ParquetSource
from fullpass.components.ingest.sources.files import SourceFile
from tests.components.ingest.reading_tools import raw

MB = 1 << 20
FILES = [SourceFile("a", None, 30 * MB, ""), SourceFile("b", None, 10 * MB, "")]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv(progress.PROGRESS_FILE_VARIABLE, str(tmp_path / "node.json"))
    monkeypatch.setattr(progress, "MIN_INTERVAL_SECONDS", 0.0)
    return tmp_path / "node.json"


def test_bytes_of_all_processes_against_those_of_all_files(path, monkeypatch):
    one = ReadRate(FILES)
    one.report(100, 5 * MB, "a")
    monkeypatch.setattr(read_rate.os, "getpid", lambda: -1)
    other = ReadRate(FILES)
    other.add_part(1000, 10 * MB)
    time.sleep(0.01)
    other.report(0, 0, "b")
    said = progress.read(path)
    assert (said.done, said.total, said.unit) == (15, 40, "MB")
    assert said.note.startswith("1,100 rows, ") and said.note.endswith(" rows/s, b")


def test_a_reader_that_cannot_tell_and_a_source_of_unknown_size(path):
    ReadRate(FILES).report(100, 0, "a")
    assert (progress.read(path).done, progress.read(path).total) == (100, None)
    ReadRate([SourceFile("q", None, 0, "")]).report(7, 0, "q")
    assert (progress.read(path).done, progress.read(path).unit) == (7, "rows")


def consumed(path, source):
    """Returns the counted bytes after each batch and at the end of each part."""
    file = SourceFile(str(path), None, path.stat().st_size, "")
    counts = []
    for part in parts_of(file, source):
        reading = Reading(file, raw(a="number"), part)
        counts.append([reading.consumed for _ in read_rows(reading, source)][-1])
    return counts


def test_readers_count_the_bytes_behind_them(tmp_path):
    csv = tmp_path / "a.csv"
    csv.write_text("a\n" + "1\n" * 1000)
    assert consumed(csv, CsvSource(format="csv", path="x")) == [2002]
    parquet = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"a": list(range(1000))}), parquet, row_group_size=100)
    assert consumed(parquet, ParquetSource(format="parquet", path="x")) == [parquet.stat().st_size]
