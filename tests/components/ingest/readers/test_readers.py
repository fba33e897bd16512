"""What every reader does, in all formats: whole rows, slices, batches of bounded bytes, and notice of a change."""

import gzip
import json
import os
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers import lines
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, read_rows
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import CsvSource, ParquetSource, SqlSource, TextSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import FILE_FORMATS
from fullpass.components.ingest.spans.spans import find_window
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES, cut_batch
from fullpass.preprocessing.values.convert import convert
from fullpass.trainer.records.record_files import record_batches
from tests.components.ingest.reading_tools import raw
from tests.components.ingest.row_files import OF_COLUMNS, WRITTEN, source_of, source_of_function, write_rows
from tests.image_files import encode_image
from tests.record_files import write_records

CSV = CsvSource(format="csv", path="p")
CITIES = [{"city": "Oslo", "n": 5, "x": 1.5}, {"city": "Bergen", "n": 7, "x": 2.25}]
CONTENTS = [b"\x1fcity\x1fOslo\x1fn\x1f5\x1fx\x1f1.5", b"\x1fcity\x1fBergen\x1fn\x1f7\x1fx\x1f2.25"]


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
    rows = [{**row, "none": None} for row in CITIES] if format in ("jsonl", "module") else CITIES
    source, file = write_rows(tmp_path, format, rows)
    assert contents_of(file, source, columns) == CONTENTS


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


TEXTS = [
    "longer than its neighbours",
    None,
    "8.0",
    "NA",
    "ü",
    *(f"text {i} " * (i % 3 + 1) for i in range(8)),
    None,
    "z",
]
TABLE = pa.table({"text": TEXTS})


def database_of_duckdb(folder):
    with duckdb.connect(folder / "rows.duckdb") as connection:
        connection.execute("create table rows (text text)")
        connection.executemany("insert into rows values (?)", [(text,) for text in TEXTS])
    url = f"duckdb:///{folder / 'rows.duckdb'}"
    return source_of(format="sql", query="rows", url=url), SourceFile("rows", None, 0, "", url)


def rows_of_batches():
    yield from TABLE.to_batches(max_chunksize=7)


def rows_of_polars():
    return pl.from_arrow(TABLE)


SLICED_FORMS = {
    "parquet of large text": lambda folder: write_rows(
        folder, "parquet", TABLE.cast(pa.schema([("text", pa.large_string())]))
    ),
    "arrow dictionary": lambda folder: write_rows(
        folder, "arrow", pa.table({"text": TABLE["text"].dictionary_encode()})
    ),
    "duckdb": database_of_duckdb,
    "record batches": lambda folder: source_of_function(rows_of_batches),
    "polars": lambda folder: source_of_function(rows_of_polars),
}
"""Further forms of formats."""


@pytest.mark.parametrize("name", [*WRITTEN, *SLICED_FORMS])
def test_slices_of_batches_hold_the_texts_of_their_rows(name, tmp_path):
    source, file = (
        SLICED_FORMS[name](tmp_path) if name in SLICED_FORMS else write_rows(tmp_path, name, TABLE, null="NA")
    )
    column = RawColumn("text", "string")
    texts, contents_of_rows, offsets = [], [], []
    for part in parts_of(file, source):
        for rows in read_rows(Reading(file, {"text": column}, part, all_columns="to_hash"), source):
            for cut in cut_batch(rows.table, rows=4):
                cells = cut["text"].chunk(0)
                offsets.append(cells.offset)
                texts += convert(cells, column, strip=False, missing=("NA",)).flat.to_pylist()
            contents_of_rows += [
                one for cut in cut_batch(rows.all_columns, rows=4) for one in contents(cut).to_pylist()
            ]
    expected = [None if text in (None, "NA") else text.encode() for text in TEXTS]
    assert texts == expected
    assert offsets[1] > 0
    kept = [one.partition(b"\x1ftext\x1f")[2].partition(b"\x1f")[0] for one in contents_of_rows]
    assert [None if one in (b"", b"NA") else one for one in kept] == expected


MANY = 36
CELL = "x" * (1 << 20)


def distinct_parquet(folder):
    return write_rows(folder, "parquet", [{"text": CELL[:-1] + chr(65 + i % 60)} for i in range(MANY)], group=MANY)


def gzipped(folder, format, lines):
    with gzip.open(folder / "a.gz", "wt", compresslevel=1) as file:
        file.writelines(line + "\n" for line in lines)
    return source_of(format=format, path="x"), SourceFile(str(folder / "a.gz"), None, 0, "")


LARGE_FORMS = {
    "parquet of distinct cells": distinct_parquet,
    "gzipped json lines": lambda folder: gzipped(folder, "jsonl", [json.dumps({"text": CELL})] * MANY),
    "gzipped text": lambda folder: gzipped(folder, "text", [CELL] * MANY),
}
"""Further forms of formats."""
LARGE_CASES = [(name, None) for name in (*WRITTEN, *LARGE_FORMS)]
LARGE_CASES += [(name, "to_hash") for name in ("tfrecord", "parquet of distinct cells", "gzipped json lines", "sql")]


@pytest.mark.integration
@pytest.mark.parametrize(("name", "whole"), LARGE_CASES)
def test_batches_are_bounded_by_bytes(tmp_path, name, whole):
    write = LARGE_FORMS.get(name, partial(write_rows, format=name, rows=[{"text": CELL}] * MANY, group=MANY))
    source, file = write(tmp_path)
    numbers = []
    for part in parts_of(file, source):
        reading = Reading(file, {"text": RawColumn("text", "string")}, part, all_columns=whole)
        for rows in read_rows(reading, source):
            cells = rows.table.column("text").to_pylist()
            assert sum(len(cell[0] if isinstance(cell, list) else cell) for cell in cells) <= BATCH_BYTES
            numbers += rows.numbers.tolist()
    first = 2 if name in ("csv", "excel", "images") else 1  # below the names
    assert numbers == list(range(first, first + MANY))


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


def write(path, rows, format="csv"):
    """Writes texts of four digits beside one another, into the file that `write_rows` names."""
    return write_rows(path.parent, format, [{"text": f"{row:04d}"} for row in rows], group=10)


def read_all(file, source, parts, column="text"):
    columns = {column: RawColumn(column, "string")}
    return sum(len(rows.numbers) for part in parts for rows in read_rows(Reading(file, columns, part), source))


def replaced_by_another(path, format):
    """Another file with the same size and the same time."""
    status = path.stat()
    path.rename(path.with_name("other"))
    write(path, range(50, 100), format)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES = {
    "cut": lambda path, format: write(path, range(20), format),
    "appended": lambda path, format: write(path, range(90), format),
    "same size": lambda path, format: write(path, range(50, 100), format),
    "same size and time": replaced_by_another,
    "gone": lambda path, _: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("format", FILE_FORMATS)
def test_a_reader_notices_that_its_file_has_changed(tmp_path, monkeypatch, format, change):
    monkeypatch.setattr(lines, "PART_BYTES", 64)
    source, found = write(tmp_path / "rows", range(50), format)
    parts = parts_of(found, source)
    assert read_all(found, source, parts) == 50
    CHANGES[change](Path(found.path), format)
    unplanned = replace(found, state="")
    for file, of_file in ((found, parts[-1:]), (unplanned, parts)):
        with pytest.raises(UserError, match=f"{found.path}.*") as error:
            read_all(file, source, of_file)
        assert "changed while it was read" in str(error.value) or change == "gone"


def test_a_remote_file_is_looked_at_again():
    memory = fsspec.filesystem("memory")
    with memory.open("/changing/x.csv", "w") as file:
        file.write("a\n1\n2\n")
    source = CsvSource(format="csv", path="memory://changing/x.csv")
    [found] = find_inputs(source, str)
    assert read_all(found, source, parts_of(found, source), "a") == 2
    with memory.open("/changing/x.csv", "w") as file:
        file.write("a\n3\n4\n")
    with pytest.raises(UserError, match="memory://.*x.csv: changed while it was read .its time is another"):
        read_all(found, source, parts_of(found, source), "a")
    memory.rm("/changing/x.csv")


def test_a_folder_s_files_and_a_manifest_s_images_are_part_of_it(tmp_path):
    def png(value: int) -> bytes:
        return encode_image(np.full((2, 2), value, dtype=np.uint8), "PNG", "L")

    for name, one in (("c/a.png", 1), ("c/b.png", 2)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png(one))
    (tmp_path / "m.csv").write_text("file,label\nc/a.png,x\nc/b.png,y\n")
    for options in ({"path": str(tmp_path)}, {"path": str(tmp_path / "m.csv"), "labels": "manifest"}):
        data = DataConfig.model_validate({"source": {"format": "images", **options}})
        [file] = find_window(data, str).files
        parts = parts_of(file, data.source)
        assert read_all(file, data.source, parts, "label") == 2
        (tmp_path / "c/b.png").write_bytes(png(2) + b" ")
        [after] = find_window(data, str).files
        assert after.version != file.version
        with pytest.raises(UserError, match="changed while it was read"):
            read_all(file, data.source, parts, "label")


@pytest.mark.integration
def test_a_query_that_reads_more_than_the_database_has_no_version(tmp_path):
    """A view over a file, a function of the time: what they return cannot be known from the database's file."""
    (tmp_path / "d.csv").write_text("a\n1\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("create table own as select 1 as a")
        connection.execute("create view own_view as select * from own")
        connection.execute(f"create view over_file as select * from read_csv('{tmp_path / 'd.csv'}')")

    def known(query: str) -> bool:
        source = SqlSource(format="sql", url=f"duckdb:///{tmp_path / 't.duckdb'}", query=query)
        first, second = (find_inputs(source, str) for _ in range(2))
        return first == second

    assert known("own") and known("own_view") and known("select a, count(*) from own group by a")
    assert not known("over_file") and not known("select * from own join over_file using (a)")
    assert not known("select a, now() from own") and not known(f"select * from '{tmp_path / 'd.csv'}'")


def test_the_log_of_a_database_is_beside_the_file_that_a_link_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    connection = sqlite3.connect(tmp_path / "real" / "t.db")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t(a)")
    connection.commit()
    (tmp_path / "link.db").symlink_to("real/t.db")
    source = SqlSource(format="sql", url=f"sqlite:///{tmp_path / 'link.db'}", query="t")
    before = find_inputs(source, str)
    assert before == find_inputs(source, str)
    connection.execute("insert into t values (1)")
    connection.commit()
    assert before != find_inputs(source, str)


def test_planned_parts_of_a_file_without_known_state_are_checked(tmp_path):
    source, found = write(tmp_path / "rows", range(50))
    file = replace(found, state="")
    parts = parts_of(file, source)
    write(tmp_path / "rows", range(40))
    with pytest.raises(UserError, match=f"{file.path}: changed while it was read .306 bytes before, 246 now"):
        read_all(file, source, parts)
