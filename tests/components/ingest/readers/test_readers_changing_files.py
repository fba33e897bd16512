"""A file that is replaced, cut or appended to between the planning and the end of its reading is an error."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import duckdb
import fsspec
import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers import lines
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import CsvSource, SqlSource
from fullpass.components.ingest.sources.formats import FILE_FORMATS
from fullpass.components.ingest.spans.spans import find_window
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.row_files import write_rows
from tests.image_files import encode_image


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
