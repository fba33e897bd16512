"""`make check-mlflow`: records a run on a real MLflow server with a login, and reads it back over the REST API.

MLFLOW=FOLDER is a virtual environment with MLflow, its server, and `mlflow[auth]`.
"""

import base64
import json
import os
import urllib.request
from dataclasses import replace

import pytest

from fullpass.pipeline.running.tracking.track import track
from tests.live.servers import free_port, listens, needed, server
from tests.pipeline.running.tracking.test_track import RUN

NAME, PASSWORD = "admin", "a-password-of-this-check"
VALUES = 30


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The URL of a server with an empty database."""
    program = needed("MLFLOW", "Give the folder of a virtual environment that has mlflow[auth].") / "bin" / "mlflow"
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    login = folder / "login.ini"
    login.write_text(
        f"[mlflow]\ndefault_permission = NO_PERMISSIONS\ndatabase_uri = sqlite:///{folder}/login.db\n"
        f"admin_username = {NAME}\nadmin_password = {PASSWORD}\n"
    )
    command = [str(program), "server", "--app-name", "basic-auth", "--backend-store-uri", f"sqlite:///{folder}/runs.db"]
    command += ["--artifacts-destination", str(folder / "artifacts"), "--port", str(port), "--workers", "1"]
    env = {
        "MLFLOW_AUTH_CONFIG_PATH": str(login),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of-this-check",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONPATH": "",
    }
    with server(command, folder / "server.log", listens(port), seconds=120, env=env):
        yield f"http://127.0.0.1:{port}"


def asked(address, path, body=None):
    """Returns the response of the REST API, called without Fullpass or MLflow."""
    login = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}/{path}", data, headers), timeout=30) as answer:
        return answer.read()


def test_a_run_with_trials_and_files_is_there(address, tmp_path):
    (tmp_path / "report.html").write_text("<p>worth it</p>")
    curve = [(epoch, epoch / VALUES) for epoch in range(1, VALUES + 1)]
    run = replace(
        RUN,
        params={f"training.{number}": "v" * 700 for number in range(250)},
        metrics={f"validation/{number}": curve for number in range(50)},
        files=(str(tmp_path / "report.html"),),
    )
    environment = os.environ | {
        "MLFLOW_TRACKING_URI": address,
        "MLFLOW_TRACKING_USERNAME": NAME,
        "MLFLOW_TRACKING_PASSWORD": PASSWORD,
    }
    said = []
    assert track(run, 120, say=said.append, environment=environment), said
    experiment = json.loads(asked(address, "api/2.0/mlflow/experiments/get-by-name?experiment_name=trips"))
    ids = [experiment["experiment"]["experiment_id"]]
    found = json.loads(asked(address, "api/2.0/mlflow/runs/search", {"experiment_ids": ids}))["runs"]
    runs = {one["info"]["run_name"]: one for one in found}
    whole, trial = runs[RUN.name], runs[f"{RUN.name} trial 1"]
    assert whole["info"]["status"] == "FINISHED"
    assert len(whole["data"]["params"]) == 250 and len(whole["data"]["metrics"]) == 50
    tags = {tag["key"]: tag["value"] for tag in trial["data"]["tags"]}
    assert tags["mlflow.parentRunId"] == whole["info"]["run_id"]
    which = f"run_id={whole['info']['run_id']}"
    history = json.loads(asked(address, f"api/2.0/mlflow/metrics/get-history?{which}&metric_key=validation/7"))
    assert [(point["step"], point["value"]) for point in history["metrics"]] == curve
    assert asked(address, f"get-artifact?path=report.html&run_uuid={whole['info']['run_id']}") == b"<p>worth it</p>"


def test_a_wrong_password_is_said_and_not_shown(address):
    environment = os.environ | {
        "MLFLOW_TRACKING_URI": address,
        "MLFLOW_TRACKING_USERNAME": NAME,
        "MLFLOW_TRACKING_PASSWORD": "another-password",
    }
    said = []
    assert not track(RUN, 120, say=said.append, environment=environment)
    assert address in said[0] and "401" in said[0] and "another-password" not in said[0]
