"""Requests are logged with their answers; what cannot be written is lost from the log, counted and told."""

import base64
import json
import os
import re
import threading

import numpy as np
import pyarrow.parquet as pq
import pytest

from fullpass.components.serving.log_writer import LogOptions, RequestLog
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.ingesting import examples, ingest
from tests.components.serving.conftest import ask
from tests.components.serving.test_app import FULL, PREDICT, RAW
from tests.trainer.conftest import to_examples

pytestmark = pytest.mark.integration


@pytest.fixture
def logged(tmp_path, api, versions):
    """Returns the function that answers requests with a log, and returns the answers, the rows of the log, the notes.

    `before` is called with the log before the first request.
    """

    def run(*requests, headers=None, before=lambda log: None, id_column=None, **options):
        told = []
        usual = {"sample": 1.0, "format": "jsonl", "left_out": (), "rotate_bytes": 1 << 20, "rotate_seconds": 60.0}
        log = RequestLog(LogOptions(tmp_path / "log", **(usual | options)), lambda: versions.current, told.append)
        before(log)
        answers = ask(api(log=log, id_column=id_column), *requests, headers=headers)
        log.close()
        return answers, read_log(tmp_path / "log"), told, log.counts

    return run


def read_log(folder):
    """Returns the rows of complete files, read with other readers."""
    rows = []
    for path in sorted(folder.glob("*/*")):
        if path.suffix == ".jsonl":
            rows += [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
    return rows


TWO = {**RAW, "instances": [FULL, {"x": -0.1, "kind": "b", "position": [1.0, 2.0], "tags": ""}]}
COLUMNS = {**FULL, "trip miles": 2.0}
del COLUMNS["trip_miles"], COLUMNS["note"]


def test_a_row_is_logged_with_its_raw_columns_and_its_answer(logged, tmp_path):
    [answer], rows, told, counts = logged(("POST", PREDICT, TWO))
    [day] = (tmp_path / "log").iterdir()
    first, second = rows
    found = answer.json()["predictions"]
    assert re.fullmatch(rf"{day.name}T\d\d:\d\d:\d\d\.\d{{6}}Z", first["log_time"])
    assert first["log_request"] == answer.headers["x-request-id"]
    assert [row["log_id"] for row in rows] == [f"{first['log_request']}-{n}" for n in (0, 1)]
    assert [row["log_row"] for row in rows] == [0, 1]
    assert [row["log_scores"] for row in rows] == [[row["scores"]] for row in found]
    assert [row["log_label"] for row in rows] == [row["prediction"] for row in found]
    assert {row["log_version"] for row in rows} == {7} and {row["log_status"] for row in rows} == {200}
    assert {row["log_sampled"] for row in rows} == {1.0} and 0 < first["log_latency_ms"] < 60_000
    assert {name: one for name, one in first.items() if not name.startswith("log_")} == COLUMNS
    assert {name: one for name, one in second.items() if not name.startswith("log_")} == {
        "x": -0.1,
        "kind": "b",
        "position": [1.0, 2.0],
    }
    assert (told, counts) == ([], {"written": 2})


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_ingest_reads_from_the_log_the_bits_that_the_model_saw(logged, versions, tmp_path, format):
    draw = np.random.default_rng(7)
    numbers = draw.integers(0, 1 << 32, 80, dtype=np.uint32).view(np.float32)
    numbers = [float(x) for x in numbers[np.isfinite(numbers)]][:60] + [0.0, -0.0, 1e-45, 3.4028235e38]
    given = [
        {"x": x, "kind": 'ä \u2028"', "city": f" {n} ", "position": [x, 0.1], "tags": "red|blue" if n % 2 else ""}
        for n, x in enumerate(numbers)
    ]
    logged(("POST", PREDICT, {**RAW, "instances": given}), ("POST", PREDICT, "{"), format=format)
    columns = [column for name, column in versions.current.columns.items() if name != "note"]
    columns.append(RawColumn("log_row", "number"))
    source = {"format": "serving_log", "path": str(tmp_path / "log/*/*")}
    manifest = ingest(tmp_path, source, columns, split={"method": "hash", "column": "log_id"})
    assert (manifest.read, manifest.left_out, manifest.quarantined) == (len(given) + 1, {"refused requests": 1}, {})
    found = {int(one["log_row"].float_list.value[0]): one for one in examples(tmp_path)}
    for n, row in enumerate(given):
        assert np.float32(found[n]["x"].float_list.value[0]).tobytes() == np.float32(row["x"]).tobytes()
        vector = np.array(found[n]["position"].float_list.value, np.float32)
        assert vector.tobytes() == np.array(row["position"], np.float32).tobytes()
        for name in ("kind", "city"):
            assert found[n][name].bytes_list.value[0] == row[name].encode()
        assert b"|".join(found[n]["tags"].bytes_list.value).decode() == row["tags"] if "tags" in found[n] else not n % 2
        assert "trip miles" not in found[n]


def test_columns_with_data_of_persons_and_those_left_out_are_not_logged(logged, versions):
    """The pipeline names `note` under `data.personal`."""
    _, [first, _], _, _ = logged(("POST", PREDICT, TWO), left_out={"city"})
    assert versions.current.personal == ["note"]
    assert {name for name in first if not name.startswith("log_")} == {"x", "trip miles", "kind", "tags", "position"}


def test_parquet_holds_the_same_rows_with_the_same_types_in_every_file(logged, tmp_path):
    _, rows, told, _ = logged(("POST", PREDICT, TWO), ("POST", PREDICT, "{"), format="parquet", left_out={"city"})
    [file] = (tmp_path / "log").glob("*/*")
    assert told == [] and file.suffix == ".parquet" and file.stat().st_mode & 0o777 == 0o640
    first, second, refused = sorted(rows, key=lambda row: (row["log_row"] is None, row["log_row"]))
    assert np.float32(first["trip miles"]) == 2.0 and first["kind"] == "a" and not {"note", "city"} & first.keys()
    assert (second["trip miles"], second["tags"]) == (None, None)
    assert (refused["log_status"], refused["log_scores"], refused["x"]) == (400, None, None)
    assert refused["log_error"].startswith("JSON Parse error")


def test_a_serialized_example_is_logged_by_its_columns(logged):
    [example] = to_examples([{"x": 0.1, "trip miles": 3.0, "kind": "a", "position": None, "note": "so"}])
    _, [row], _, _ = logged(("POST", PREDICT, {"instances": [{"b64": base64.b64encode(example).decode()}]}))
    raw = {name: one for name, one in row.items() if not name.startswith("log_")}
    assert raw == {"x": 0.1, "trip miles": 3.0, "kind": "a"}


def test_a_row_has_the_id_of_the_caller(logged):
    with_ids = {**RAW, "instances": [{**FULL, "trip": "t1"}, {**FULL, "trip": 2}, FULL]}
    columns = {**RAW, "inputs": {"x": [1.0, 2.0], "trip": ["c1", "c2"]}}
    _, rows, _, _ = logged(
        ("POST", PREDICT, with_ids), ("POST", PREDICT, columns), id_column="trip", headers={"x-request-id": "r-9"}
    )
    assert sorted(row["log_id"] for row in rows) == ["2", "c1", "c2", "r-9-2", "t1"]
    assert {row["log_request"] for row in rows} == {"r-9"} and all("trip" not in row for row in rows)


def test_what_the_model_refuses_is_logged_with_the_columns_that_could_be_read(logged):
    ragged = {**RAW, "inputs": {"x": [1.0, 2.0], "kind": ["a"]}}
    _, rows, told, _ = logged(("POST", PREDICT, ragged))
    assert [(row["log_row"], row["log_status"], row["x"]) for row in rows] == [(0, 400, 1.0), (1, 400, 2.0)]
    assert all("kind" not in row and "log_scores" not in row for row in rows) and told == []


def test_a_share_of_the_requests_is_logged(logged):
    _, rows, _, _ = logged(*[("POST", PREDICT, "{")] * 400, sample=0.25)
    assert 60 < len(rows) < 140 and {row["log_sampled"] for row in rows} == {0.25}  # within 4.6 standard deviations


def test_a_full_disk_loses_rows_and_no_answer(logged, tmp_path):
    """The folder of the day cannot be made, as on a full disk; another process makes room."""

    def block(log):
        (tmp_path / "log").rmdir()
        (tmp_path / "log").write_text("")

    answers, _, told, counts = logged(*[("POST", PREDICT, TWO)] * 5, before=block)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert counts == {"lost_disk": 10}
    assert [re.sub(r"\d+ rows", "N rows", line)[:20] for line in told] == ["The log lost N rows:"] * len(told)
    assert sum(int(re.search(r"(\d+) rows", line)[1]) for line in told) == 10


def test_a_disk_that_hangs_loses_rows_and_no_answer(logged, monkeypatch):
    """Writing blocks until all requests are answered: what does not fit into the queue is lost and counted."""
    from fullpass.components.serving import log_writer

    monkeypatch.setattr(log_writer, "_MOST_WAITING", 2000)
    hangs, read, write = threading.Event(), *os.pipe()

    class Hanging(log_writer.OpenFile):
        def write(self, lines):
            hangs.set()
            os.read(read, 1)
            super().write(lines)

    monkeypatch.setattr(log_writer, "OpenFile", Hanging)
    timer = threading.Timer(2.0, os.write, (write, b"x" * 1000))
    timer.start()
    answers, rows, told, counts = logged(*[("POST", PREDICT, TWO)] * 50)
    timer.join()
    assert [answer.status_code for answer in answers] == [200] * 50
    assert counts["lost_queue"] + counts["written"] == 100 and len(rows) == counts["written"]
    assert 50 < counts["lost_queue"] < 100 and told == [f"The log lost {counts['lost_queue']} rows: the disk is slow"]
