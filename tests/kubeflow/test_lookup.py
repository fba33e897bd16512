"""What look-up containers find: files with their fingerprint, and blessed models in a registry."""

import json
import os
import time
from pathlib import Path

import pytest

from components.ingest.config import IngestConfig
from components.ingest.request import Request, read_request
from kubeflow.executor_input import ABSENT, parse
from kubeflow.lookup import ingest_inputs, last_blessed_model, record_blessing
from kubeflow.registry import FolderRegistry
from preprocessing.columns import RawColumn
from preprocessing.errors import UserError


@pytest.fixture(params=["path", "memory://"])
def registry(request, tmp_path):
    return FolderRegistry(str(tmp_path) if request.param == "path" else f"memory://{tmp_path.name}/registry")


def told(parameters, *, inputs=None, outputs=None):
    """Returns a launcher's message as the container parses it."""
    message = {
        "inputs": {"parameterValues": parameters, "artifacts": inputs or {}},
        "outputs": {"artifacts": {name: {"artifacts": [{"uri": f"minio://b/{name}"}]} for name in outputs or {}},
                    "outputFile": "/tmp/unused"},
    }  # fmt: skip
    return parse(json.dumps(message), {name: "/nowhere" for name in inputs or {}}, outputs or {})


def test_a_registry_gives_the_newest_model_that_was_made_from_something_else(registry):
    assert registry.newest("taxi", made_from="a") is None
    for model, made_from in (("s3://b/1", "a"), ("s3://b/2", "b"), ("s3://b/3", "c"), ("s3://b/4", "c")):
        assert registry.record("taxi", model, "s3://b/blessing", made_from)
    assert registry.newest("taxi", made_from="c").model == "s3://b/2"
    assert registry.newest("taxi", made_from="d").model == "s3://b/4"
    assert registry.newest("flights", made_from="a") is None


def test_an_entry_of_an_earlier_version_is_read(registry, tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True, exist_ok=True)
    entry = {"model": "s3://b/1", "blessing": "x", "time": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "taxi/blessed/1-x.json").write_text(json.dumps(entry))
    assert FolderRegistry(str(tmp_path)).newest("taxi", made_from="a").model == "s3://b/1"


def test_a_model_is_recorded_once(registry):
    assert registry.record("taxi", "s3://b/1", "x", "a") and registry.record("taxi", "s3://b/2", "x", "b")
    assert not registry.record("taxi", "s3://b/1", "x", "a")
    assert registry.newest("taxi", made_from="").model == "s3://b/2"


def test_a_spoilt_entry_is_named(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/1.json").write_text("{}")
    with pytest.raises(UserError, match=r"taxi/blessed/1\.json: no entry of a registry"):
        FolderRegistry(str(tmp_path)).newest("taxi", made_from="")


def test_a_half_written_entry_is_not_read(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/.1.json.part").write_text("{")
    assert FolderRegistry(str(tmp_path)).newest("taxi", made_from="") is None


def test_without_a_blessed_model_the_address_of_nothing_is_given(tmp_path):
    parameters = {"registry": str(tmp_path / "registry"), "pipeline": "taxi", "made_from": "a", "request": "{}"}
    asked = told(parameters, outputs={"nothing": str(tmp_path / "nothing")})
    _, found = last_blessed_model(asked)
    assert found == {"model_uri": "minio://b/nothing"}
    assert [file.name for file in (tmp_path / "nothing").iterdir()] == [ABSENT]


def test_a_blessing_is_recorded_and_found_and_a_refusal_is_not(tmp_path):
    parameters = {"registry": str(tmp_path / "registry"), "pipeline": "taxi"}
    runs = (("s3://b/1", 1.0, "day 1"), ("s3://b/2", 0.0, "day 2"), ("s3://b/3", 1.0, "day 3"))
    for model, blessed, request in runs:
        metadata = {"blessed": blessed, "current_model": model}
        listed = {"artifacts": [{"uri": "s3://b/blessing", "metadata": metadata}]}
        made_from = {"made_from": "parameters", "request": request}
        record_blessing(told(parameters | made_from, inputs={"blessing": listed}))

    def found(made_from: str, request: str) -> str:
        asked = {**parameters, "made_from": made_from, "request": request}
        return last_blessed_model(told(asked, outputs={"nothing": str(tmp_path / "nothing")}))[1]["model_uri"]

    assert found("parameters", "day 4") == "s3://b/3"
    assert found("parameters", "day 3") == "s3://b/1", (
        "a run of the same data and parameters follows what that followed"
    )
    assert found("others", "day 3") == "s3://b/3"


def request_for(path: str) -> str:
    config = {"source": {"format": "csv", "path": path}, "split": {"method": "hash"}, "records": {}, "bad_rows": {}}
    columns = (RawColumn("fare", "number"),)
    return Request(IngestConfig.model_validate(config), ("train", "eval"), columns, gzip=True).to_json()


def found_files(folder: Path, data_path: str = "") -> str:
    parameters = {"request": request_for("*.csv"), "folder": str(folder), "data_path": data_path}
    return ingest_inputs(told(parameters))[1]["request"]


def test_the_request_changes_when_a_file_does_and_only_then(tmp_path):
    (tmp_path / "a.csv").write_text("fare\n1\n")
    first = found_files(tmp_path)
    [span] = read_request(first).spans
    assert [file.path for file in span.files] == [str(tmp_path / "a.csv")] and len(span.fingerprint) >= 16
    assert found_files(tmp_path) == first
    (tmp_path / "a.csv").write_text("fare\n2\n")
    os.utime(tmp_path / "a.csv", (time.time() + 5, time.time() + 5))
    second = found_files(tmp_path)
    assert second != first
    (tmp_path / "b.csv").write_text("fare\n3\n")
    assert found_files(tmp_path) not in (first, second)


@pytest.mark.parametrize("given", ["other/*.csv", '["other/c.csv"]'])
def test_a_run_may_name_other_files(tmp_path, given):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/c.csv").write_text("fare\n1\n")
    [span] = read_request(found_files(tmp_path, given)).spans
    assert [file.path for file in span.files] == [str(tmp_path / "other/c.csv")]


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"data\.source\.path: '\*\.csv' is no file"):
        found_files(tmp_path)


def test_a_message_that_is_none_is_named():
    with pytest.raises(UserError, match="not what Kubeflow's launcher writes.*fullpass compile"):
        parse('{"inputs": {}}', {}, {})
