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


def test_a_registry_gives_the_newest_model_that_is_not_the_candidate(registry):
    assert registry.newest("taxi", other_than="") is None
    for model in ("s3://b/1", "s3://b/2", "s3://b/3"):
        assert registry.record("taxi", model, "s3://b/blessing")
    assert registry.newest("taxi", other_than="s3://b/3").model == "s3://b/2"
    assert registry.newest("taxi", other_than="s3://b/9").model == "s3://b/3"
    assert registry.newest("flights", other_than="") is None


def test_a_model_is_recorded_once(registry):
    assert registry.record("taxi", "s3://b/1", "x") and registry.record("taxi", "s3://b/2", "x")
    assert not registry.record("taxi", "s3://b/1", "x")
    assert registry.newest("taxi", other_than="").model == "s3://b/2"


def test_a_spoilt_entry_is_named(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/1.json").write_text("{}")
    with pytest.raises(UserError, match=r"taxi/blessed/1\.json: no entry of a registry"):
        FolderRegistry(str(tmp_path)).newest("taxi", other_than="")


def test_a_half_written_entry_is_not_read(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/.1.json.part").write_text("{")
    assert FolderRegistry(str(tmp_path)).newest("taxi", other_than="") is None


def test_without_a_blessed_model_the_address_of_nothing_is_given(tmp_path):
    parameters = {"registry": str(tmp_path / "registry"), "pipeline": "taxi", "candidate": "s3://b/1"}
    asked = told(parameters, outputs={"nothing": str(tmp_path / "nothing")})
    _, found = last_blessed_model(asked)
    assert found == {"model_uri": "minio://b/nothing"}
    assert [file.name for file in (tmp_path / "nothing").iterdir()] == [ABSENT]


def test_a_blessing_is_recorded_and_found_and_a_refusal_is_not(tmp_path):
    parameters = {"registry": str(tmp_path / "registry"), "pipeline": "taxi"}
    for model, blessed in (("s3://b/1", 1.0), ("s3://b/2", 0.0)):
        metadata = {"blessed": blessed, "current_model": model}
        listed = {"artifacts": [{"uri": "s3://b/blessing", "metadata": metadata}]}
        record_blessing(told(parameters, inputs={"blessing": listed}))
    asked = told({**parameters, "candidate": "s3://b/3"}, outputs={"nothing": str(tmp_path / "nothing")})
    assert last_blessed_model(asked)[1] == {"model_uri": "s3://b/1"}


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
