"""Request logs: answered rows with the values of the line, in both formats; what is refused, open or no log."""

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import ServingLogSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.ingesting import examples, ingest
from tests.components.ingest.reading_tools import raw, read_input
from tests.image_files import encode_image

PIXEL = encode_image(np.ones((1, 1), np.uint8))
HALVES = {"method": "column", "column": "log_id", "values": {"train": ["a", "c"], "eval": ["d"]}}
ROWS = [
    {"log_id": "a", "log_status": 200, "km": 0.1, "zone": "NA"},
    {"log_id": "b", "log_status": 400, "km": 7.0},
    {"log_id": "c", "log_status": 200, "zone": ""},
    {"log_id": "d", "km": 2.0, "zone": "ü"},
]


def source(folder, pattern="*"):
    return ServingLogSource(format="serving_log", path=str(folder / pattern))


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(folder, kind):
    if kind == "jsonl":
        (folder / "log.jsonl").write_text(lines(ROWS), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "log.parquet")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_refused_requests_are_left_out_unless_the_status_is_read(tmp_path, kind):
    write(tmp_path, kind)
    [file] = find_inputs(source(tmp_path), str)
    rows, _, bad = read_input(file, source(tmp_path), raw(log_id="string", zone="string", km="number"))
    assert rows == [("a", "NA", 0.1), ("c", "", None), ("d", "ü", 2.0)] and bad == []
    rows, _, _ = read_input(file, source(tmp_path), ["log_id", "log_status"])
    assert [row[0] for row in rows] == ["a", "b", "c", "d"]


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_ingest_counts_what_it_leaves_out(tmp_path, kind):
    write(tmp_path, kind)
    columns = [RawColumn("km", "number"), RawColumn("zone", "string")]
    manifest = ingest(tmp_path, source(tmp_path), columns, split=HALVES)
    assert (manifest.read, sum(manifest.written.values()), manifest.left_out) == (4, 3, {"refused requests": 1})
    cells = [{name: list(one.float_list.value or one.bytes_list.value) for name, one in of.items()
              if name in ("km", "zone")} for of in examples(tmp_path)]  # fmt: skip
    assert sorted(cells, key=str) == [
        {"km": [np.float32(0.1)], "zone": [b"NA"]},
        {"km": [2.0], "zone": ["ü".encode()]},
        {},
    ]


def test_images_of_json_lines_are_bytes(tmp_path):
    text = base64.b64encode(PIXEL).decode()
    (tmp_path / "log.jsonl").write_text(lines([{"log_id": "a", "photo": {"b64": text}}, {"log_id": "b"}]))
    [file] = find_inputs(source(tmp_path), str)
    columns = {"photo": RawColumn("photo", "string", image=True)}
    assert read_input(file, source(tmp_path), columns)[0] == [(PIXEL,), (None,)]


def test_a_file_that_a_server_writes_is_no_input(tmp_path):
    (tmp_path / "1.jsonl.open").write_text('{"log_id": "torn')
    with pytest.raises(UserError, match=r"matches only files that a server is writing \(\.open\)"):
        find_inputs(source(tmp_path), str)
    write(tmp_path, "jsonl")
    assert [file.path for file in find_inputs(source(tmp_path), str)] == [str(tmp_path / "log.jsonl")]


def test_another_file_is_named(tmp_path):
    (tmp_path / "log.csv").write_text("log_id,km\na,1\n")
    [file] = find_inputs(source(tmp_path), str)
    with pytest.raises(
        UserError, match=r"log.csv: no request log, but begins with b'log_id,km.*Accepted: JSON lines, Parquet"
    ):
        parts_of(file, source(tmp_path))


def test_counts_of_a_part_are_those_of_the_reader(tmp_path):
    """A line that is no JSON is malformed, as in JSON lines."""
    (tmp_path / "log.jsonl").write_text(lines(ROWS) + "no\n")
    [file] = find_inputs(source(tmp_path), str)
    reading = Reading(file, raw(km="number"))
    assert sum(len(rows.numbers) for rows in read_rows(reading, source(tmp_path))) == 3
    assert (reading.malformed, reading.left_out) == (2, {"refused requests": 1})
    assert [(row.row, row.reason[:7]) for row in reading.take_bad()] == [(5, "no JSON")]
