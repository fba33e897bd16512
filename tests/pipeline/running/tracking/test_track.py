"""Runs recorded by MLflow's own client; what is recorded is read from the plain files of its file store."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fullpass.pipeline.running.tracking.track import TrackedRun, server_words, track

RUN = TrackedRun(
    experiment="trips",
    name="20260105-030000-000001",
    failed=False,
    started=1_700_000_000_000,
    ended=1_700_000_060_000,
    params={"model.kind": "mlp", "features": "f" * 900},
    tags={"fullpass.outcome": "success", "fullpass.gate.auc": "met: >= 0.8"},
    metrics={"validation/auc": [(1, 0.7), (2, 0.75)], "eval/auc": [(0, 0.74)]},
    texts={"pipeline.yaml": "name: trips\n"},
    files=(),
    trials=({"params": {"training.learning_rate": "0.01"}, "metrics": {"validation/log_loss": [(0, 0.4)]}},),
)
FAILED, FINISHED = 4, 3  # mlflow.entities.RunStatus


def stored(folder: Path) -> dict[str, Path]:
    """Returns the folders of the runs of a file store by the names of the runs."""
    metas = {file.parent: yaml.safe_load(file.read_text()) for file in folder.glob("*/*/meta.yaml")}
    return {meta["run_name"]: run for run, meta in metas.items()}


@pytest.mark.integration
def test_a_run_and_its_trials_are_recorded_by_a_real_store(tmp_path):
    environment = os.environ | {"MLFLOW_TRACKING_URI": (tmp_path / "store").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    (tmp_path / "report.html").write_text("<p>worth it</p>")
    said = []
    run = replace(RUN, failed=True, files=(str(tmp_path / "report.html"),))
    assert track(run, 120, say=said.append, environment=environment), said
    runs = stored(tmp_path / "store")
    whole, trial = runs[RUN.name], runs[f"{RUN.name} trial 1"]
    meta = yaml.safe_load((whole / "meta.yaml").read_text())
    assert (meta["status"], meta["start_time"], meta["end_time"]) == (FAILED, RUN.started, RUN.ended)
    experiment = yaml.safe_load((whole.parent / "meta.yaml").read_text())
    assert experiment["name"] == "trips"
    assert (whole / "metrics" / "validation" / "auc").read_text().splitlines() == [
        "1700000060000 0.7 1",
        "1700000060000 0.75 2",
    ]
    assert (whole / "params" / "model.kind").read_text() == "mlp"
    assert (whole / "params" / "features").read_text() == "f" * 500
    assert (whole / "tags" / "fullpass.gate.auc").read_text() == "met: >= 0.8"
    assert (whole / "artifacts" / "report.html").read_text() == "<p>worth it</p>"
    assert (whole / "artifacts" / "pipeline.yaml").read_text() == "name: trips\n"
    assert (trial / "tags" / "mlflow.parentRunId").read_text() == whole.name
    assert (trial / "params" / "training.learning_rate").read_text() == "0.01"
    assert yaml.safe_load((trial / "meta.yaml").read_text())["status"] == FINISHED


@pytest.mark.integration
def test_a_server_that_is_not_there_is_named_without_login_and_token():
    environment = os.environ | {
        "MLFLOW_TRACKING_URI": "http://ann:hunter2@127.0.0.1:9/team-s3cr3t",
        "MLFLOW_TRACKING_TOKEN": "t0ken-of-ann",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    }
    said = []
    assert not track(RUN, 120, say=said.append, environment=environment)
    [line] = said
    assert line.startswith("mlflow: the run could not be recorded at http://127.0.0.1:9: ")
    assert "refused" in line
    assert not any(secret in line for secret in ("hunter2", "t0ken"))


def test_a_recording_that_takes_too_long_is_given_up():
    said, began = [], time.monotonic()
    assert not track(RUN, 0.2, say=said.append, environment=os.environ | {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"})
    assert time.monotonic() - began < 30
    assert said == [
        "mlflow: the run could not be recorded at http://127.0.0.1:9: "
        "it took longer than 0.2 s and was stopped (mlflow.timeout)."
    ]


def test_without_an_address_the_variable_is_named():
    said = []
    assert not track(RUN, 1, say=said.append, environment={})
    assert "MLFLOW_TRACKING_URI is not set" in said[0]


@pytest.mark.parametrize(
    "address, words",
    [
        ("https://user:pass@host.example/path?token=x", "https://host.example"),
        ("http://me:a@[::1]:5000/x", "http://[::1]:5000"),
        ("databricks", "databricks"),
        ("http://host:port", "MLFLOW_TRACKING_URI"),
    ],
)
def test_a_server_is_named_by_scheme_host_and_port(address, words):
    assert server_words(address) == words


def test_no_secret_of_a_run_is_sent():
    run = replace(RUN, params={"data.source": "postgresql://me:hunter2@db/trips"})
    assert json.loads(run.to_json())["params"] == {"data.source": "postgresql://***@db/trips"}
