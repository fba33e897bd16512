"""BigQuery's own client against a server on loopback that implements the part of the REST API that a query needs."""

import json

import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.bigquery import EMULATOR, has_credentials
from fullpass.components.ingest.sources.config import BigQuerySource
from tests.components.ingest.reading_tools import inputs, read_input
from tests.loopback import QuietHandler, serving

SCHEMA = {
    "fields": [
        {"name": "n", "type": "INTEGER", "mode": "NULLABLE"},
        {"name": "x", "type": "FLOAT", "mode": "NULLABLE"},
        {"name": "ok", "type": "BOOLEAN", "mode": "NULLABLE"},
        {"name": "text", "type": "STRING", "mode": "NULLABLE"},
        {"name": "tags", "type": "STRING", "mode": "REPEATED"},
        {"name": "at", "type": "RECORD", "mode": "NULLABLE", "fields": [{"name": "zone", "type": "STRING"}]},
    ]
}
ROWS = [
    ["0", "0.0", "false", "", [{"v": "a"}, {"v": "b"}], {"f": [{"v": "north"}]}],
    ["7", None, "true", None, [], {"f": [{"v": None}]}],
]
JOB = {"projectId": "p", "jobId": "j", "location": "EU"}


class _Answers(QuietHandler):
    queries: list = []

    def do_POST(self):
        request = json.loads(self.content())
        query = request["configuration"]["query"]["query"]
        self.queries.append(query)
        if "nowhere" in query:
            self.reply({"error": {"code": 404, "message": "Not found: Table p:d.nowhere"}}, 404)
            return
        table = {"projectId": "p", "datasetId": "d", "tableId": "t"}
        configuration = {"query": {"query": query, "destinationTable": table}, "jobType": "QUERY"}
        status = {"state": "DONE"}
        self.reply({"jobReference": JOB, "configuration": configuration, "status": status, "statistics": {}})

    def do_GET(self):
        rows = [{"f": [{"v": value} for value in row]} for row in ROWS]
        body = {"jobReference": JOB, "jobComplete": True, "schema": SCHEMA, "totalRows": str(len(ROWS)), "rows": rows}
        self.reply(body)


@pytest.fixture
def server(monkeypatch):
    _Answers.queries.clear()
    with serving(_Answers) as address:
        monkeypatch.setenv(EMULATOR, address)
        yield


def read(tmp_path, query, columns):
    source = BigQuerySource(format="bigquery", query=query, project="p")
    (file,) = inputs(source, tmp_path)
    return read_input(file, source, columns)


def test_zero_false_and_empty_text_are_values_and_null_is_missing(server, tmp_path):
    rows, numbers, bad = read(tmp_path, "SELECT * FROM d.t", ["n", "x", "ok", "text", "tags", "at.zone"])
    assert rows == [(0, 0.0, False, "", ["a", "b"], "north"), (7, None, True, None, [], None)]
    assert numbers == [1, 2] and not bad


def test_a_table_by_its_name(server, tmp_path):
    read(tmp_path, "p.d.t", ["n"])
    assert _Answers.queries == ["SELECT * FROM `p.d.t`"]


def test_what_bigquery_says_is_passed_on(server, tmp_path):
    with pytest.raises(UserError, match="BigQuery says: .*Not found: Table p:d.nowhere"):
        read(tmp_path, "p.d.nowhere", ["n"])
    with pytest.raises(UserError, match="no column 'm'. Columns of the file: n, x, ok"):
        read(tmp_path, "p.d.t", ["m"])


def test_a_query_is_asked_anew_on_every_run(tmp_path):
    source = BigQuerySource(format="bigquery", query={"train": "d.a", "eval": "d.b"})
    assert source.given_splits == ("train", "eval")
    assert inputs(source, tmp_path)[0].version != inputs(source, tmp_path)[0].version


def test_credentials_are_looked_for_in_files_only(tmp_path, monkeypatch):
    for name in (EMULATOR, "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    assert not has_credentials()
    (tmp_path / "application_default_credentials.json").write_text("{}")
    assert has_credentials()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    assert not has_credentials()
