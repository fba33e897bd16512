"""A file that is replaced, cut or appended to between the planning and the end of its reading is an error."""

import os
import sqlite3
from dataclasses import replace

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers import lines
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import (
    CsvSource,
    ExcelSource,
    JsonLinesSource,
    NumpySource,
    ParquetSource,
    SqlSource,
    TextSource,
)
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.spans import find_window
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.image_files import encode_image
from tests.spreadsheet_files import write_xlsx

SOURCES = {
    "csv": CsvSource,
    "xlsx": ExcelSource,
    "jsonl": JsonLinesSource,
    "txt": TextSource,
    "npy": NumpySource,
    "parquet": ParquetSource,
}
FORMATS = {"txt": "text", "npy": "numpy", "xlsx": "excel"}
COLUMN = {"txt": "text", "npy": "data"}


def write(path, rows):
    if path.suffix == ".csv":
        path.write_text("a\n" + "".join(f"{row:04d}\n" for row in rows))
    elif path.suffix == ".xlsx":
        write_xlsx(path, {"rows": [["a"], *([row] for row in rows)]})
    elif path.suffix == ".jsonl":
        path.write_text("".join(f'{{"a": {row + 1000}}}\n' for row in rows))
    elif path.suffix == ".txt":
        path.write_text("".join(f"{row:04d}\n" for row in rows))
    elif path.suffix == ".npy":
        np.save(path, np.array(list(rows), dtype=np.float32))
    else:
        pa.parquet.write_table(pa.table({"a": list(rows)}), path, row_group_size=10)


def read_all(file, source, parts, column):
    got = 0
    for part in parts:
        got += sum(
            len(rows.numbers) for rows in read_rows(Reading(file, {column: RawColumn(column, "string")}, part), source)
        )
    return got


def replaced_by_another(path):
    """Another file with the same size and the same time."""
    status = path.stat()
    other = path.with_name("other")
    write(path.rename(other).with_name(path.name), range(50, 100))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES = {
    "cut": lambda path: write(path, range(20)),
    "appended": lambda path: write(path, range(90)),
    "same size": lambda path: write(path, range(50, 100)),
    "same size and time": replaced_by_another,
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("ending", SOURCES)
def test_a_reader_notices_that_its_file_has_changed(tmp_path, monkeypatch, ending, change):
    monkeypatch.setattr(lines, "PART_BYTES", 64)
    path = tmp_path / f"x.{ending}"
    write(path, range(50))
    source = SOURCES[ending](format=FORMATS.get(ending, ending), path=str(path))
    [found] = find_inputs(source, str)
    column = COLUMN.get(ending, "a")
    parts = parts_of(found, source)
    assert read_all(found, source, parts, column) == 50
    CHANGES[change](path)
    unplanned = replace(found, state="")
    for file, of_file in ((found, parts[-1:]), (unplanned, parts)):
        with pytest.raises(UserError, match=f"{path}.*") as error:
            read_all(file, source, of_file, column)
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
    path = tmp_path / "x.csv"
    write(path, range(50))
    source = CsvSource(format="csv", path=str(path))
    file = SourceFile(str(path), None, path.stat().st_size, "v")
    parts = parts_of(file, source)
    write(path, range(40))
    with pytest.raises(UserError, match=f"{path}: changed while it was read .252 bytes before, 202 now"):
        read_all(file, source, parts, "a")
