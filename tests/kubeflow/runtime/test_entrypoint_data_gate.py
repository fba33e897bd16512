"""The data gate in a container: the run fails, and the pod reports the drift."""

import json
import os
import subprocess
import sys

import pytest

from fullpass.components.library_versions import line
from fullpass.kubeflow.runtime import termination

pytestmark = pytest.mark.integration


def run_gate(tmp_path, policy, compiled=None):
    """Runs the container of DataGate on a comparison with one finding. compiled: the line of the package."""
    from fullpass.components.artifacts import SpanComparison
    from fullpass.components.data_gate.component import write_comparison
    from fullpass.components.data_gate.gate_verdict import GateFinding, GateVerdict

    finding = GateFinding("missing", "vendor_id", policy, "vendor_id: 8.0% of values missing, 0.3% in 2020-03.", 1.5)
    comparison = SpanComparison()
    comparison.uri = str(tmp_path / "comparison")
    (tmp_path / "comparison").mkdir()
    write_comparison(comparison, GateVerdict("2020-04", 10_000, "2020-03", "", (finding,), (), ()), "taxi")
    node = {
        "node": "DataGate", "prefix": "", "reads": {"comparison": "comparison"}, "windows": [], "beam": None,
        "executor": "fullpass.components.data_gate.gate_component.DataGate_Executor",
        "parameters": {"serving": "str"}, "inputs": {"comparison": "fullpass.components.artifacts.SpanComparison"},
        "outputs": {"verdict": "fullpass.components.artifacts.DataVerdict"},
    }  # fmt: skip
    plan = {"folder": str(tmp_path), "artifacts": "copied", "line": compiled or line(), "nodes": [node]}
    answer = tmp_path / "answer.json"
    message = {
        "inputs": {
            "parameterValues": {"serving": "/models/taxi"},
            "artifacts": {"comparison": {"artifacts": [{"name": "1", "uri": "minio://b/c", "metadata": {}}]}},
        },
        "outputs": {
            "artifacts": {"verdict": {"artifacts": [{"name": "verdict", "uri": "minio://b/v"}]}},
            "outputFile": str(answer),
        },
    }  # fmt: skip
    log = tmp_path / "termination-log"
    log.touch()
    command = [
        sys.executable, "-m", "fullpass.kubeflow.runtime.entrypoint", "--plan", json.dumps(plan),
        "--executor-input", json.dumps(message),
        f"--input=comparison={comparison.uri}", f"--output=verdict={tmp_path / 'verdict'}",
    ]  # fmt: skip
    environment = {**os.environ, termination.LOG_VARIABLE: str(log)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done, log.read_text(), answer


def test_an_image_of_another_line_says_so_in_the_termination_message(tmp_path):
    done, message, answer = run_gate(tmp_path, "warn", "TFX 1.15.1, Python 3.10")
    assert done.returncode == 1 and not answer.exists()
    assert message.startswith("DataGate: the package was compiled with TFX 1.15.1, Python 3.10, and the image")


def test_a_stop_is_the_termination_message(tmp_path):
    done, message, answer = run_gate(tmp_path, "stop")
    assert done.returncode == 1 and not answer.exists()
    assert message.startswith("DataGate: 2020-04 has changed. Nothing was trained; the model served from /models/taxi")
    assert "vendor_id: 8.0% of values missing, 0.3% in 2020-03. (gates.missing)" in message


def test_what_is_only_told_lets_the_run_go_on(tmp_path):
    done, message, answer = run_gate(tmp_path, "retrain")
    assert (done.returncode, message) == (0, ""), done.stderr
    [verdict] = json.loads(answer.read_text())["artifacts"]["verdict"]["artifacts"]
    assert verdict["metadata"] == {"span": "2020-04", "warnings": 1, "retrain": 1}
