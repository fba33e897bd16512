"""Every reader returns whole rows on request, whatever columns are read otherwise."""

import gzip

import pyarrow as pa
import pytest

from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import CsvSource, TextSource
from fullpass.components.ingest.sources.files import SourceFile
from tests.components.ingest.reading_tools import raw
from tests.components.ingest.row_files import OF_COLUMNS, write_rows

CSV = CsvSource(format="csv", path="p")
ROWS = [{"city": "Oslo", "n": 5, "x": 1.5}, {"city": "Bergen", "n": 7, "x": 2.25}]
EXPECTED = [b"\x1fcity\x1fOslo\x1fn\x1f5\x1fx\x1f1.5", b"\x1fcity\x1fBergen\x1fn\x1f7\x1fx\x1f2.25"]


def file_at(path):
    return SourceFile(str(path), None, path.stat().st_size, "")


def contents_of(file, source, columns):
    found = []
    for part in parts_of(file, source):
        for rows in read_rows(Reading(file, columns, part, all_columns=True), source):
            assert rows.table.column_names == list(columns)
            found += contents(rows.all_columns).to_pylist()
    return found


@pytest.mark.parametrize("format", [name for name in OF_COLUMNS if name != "images"])  # its rows hold the image
@pytest.mark.parametrize("columns", [raw(n="number"), raw(city="string", x="number"), raw(x="string")])
def test_the_same_rows_have_the_same_content_in_every_format(tmp_path, format, columns):
    rows = [{**row, "none": None} for row in ROWS] if format in ("jsonl", "module") else ROWS
    source, file = write_rows(tmp_path, format, rows)
    assert contents_of(file, source, columns) == EXPECTED


def test_folders_named_key_value_are_content(tmp_path):
    (tmp_path / "year=2024").mkdir()
    path = tmp_path / "year=2024" / "a.csv"
    path.write_text("n\n5\n")
    assert contents_of(file_at(path), CSV, raw(n="number")) == [b"\x1fn\x1f5\x1fyear\x1f2024"]


def test_a_bad_cell_in_a_column_that_nothing_reads_spoils_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"n,note\n1,caf\xe9\n2,ok\nfree,x\n")
    assert contents_of(file_at(path), CSV, raw(n="number")) == [
        b"\x1fn\x1f1\x1fnote\x1fcaf\xe9",
        b"\x1fn\x1f2\x1fnote\x1fok",
        b"\x1fn\x1ffree\x1fnote\x1fx",
    ]


def test_numbers_are_hashed_as_they_are_written(tmp_path):
    """Otherwise a non-numeric cell further down the block would change the hashes of the rows above it."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"n,m\n1.50,1\n007,2\n"))
    texts = contents_of(file_at(path), CSV, raw(n="string"))
    assert texts == [b"\x1fm\x1f1\x1fn\x1f1.50", b"\x1fm\x1f2\x1fn\x1f007"]
    assert contents_of(file_at(path), CSV, raw(n="number")) == texts


def test_lines_of_text_are_content(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    assert contents_of(file_at(path), TextSource(format="text", path="p"), raw(text="string")) == [
        b"\x1ftext\x1fone",
        b"\x1ftext\x1ftwo",
    ]


def test_hash_of_nothing_is_that_of_b2sum():
    """The hashes are of printf 'trip-7' | b2sum -l 64, and of an empty input."""
    assert [f"{h:016x}" for h in hashes(pa.array(["trip-7", None])).tolist()] == [
        "e7cbe8422c7c1249",
        "e4a6a0577479b2b4",
    ]
