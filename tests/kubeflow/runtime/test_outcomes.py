"""`notify:` on Kubeflow: the receivers of a run's outcome, under the backend's rules."""

import copy
import json
import signal
import sys
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.judge.verdict import verdict_json
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.ingest.spans.spans import SpanNotFoundError
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.protocol import OUTCOMES_VARIABLE
from fullpass.kubeflow.runtime.executor_input import parse_message
from fullpass.kubeflow.runtime.outcomes import (
    NoNewSpanError,
    OutcomeRecords,
    container_records,
    record_failure,
    record_outcome,
)
from fullpass.pipeline.config import EVENTS
from fullpass.pipeline.exit_codes import OUTCOME_CODES
from fullpass.pipeline.record.facts import RunFacts
from tests.kubeflow.backend.launcher import TaskFailed
from tests.kubeflow.backend.run import Backend
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import ENVIRONMENT, as_text

MESSAGE = {
    "outputs": {"artifacts": {"executor-logs": {"artifacts": [{"uri": "s3://b/taxi/run-7/t/salt/executor-logs"}]}}}
}
TELL = """\
import json, os, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({**json.load(sys.stdin), "secret": os.environ["ALERT_TOKEN"]}) + "\\n")
"""


def note(variables, task, error):
    record_failure(variables, json.dumps(MESSAGE), task, error)


@pytest.fixture
def variables(tmp_path):
    return {OUTCOMES_VARIABLE: f"{tmp_path}/taxi/outcomes"}


def test_every_event_has_an_exit_code():
    assert OUTCOME_CODES.keys() >= set(EVENTS) - {"watch"}, "`watch` is of no run"


@pytest.mark.parametrize(
    ("task", "error", "event"),
    [
        ("Trainer", UserError("row 3: bad date"), "failure"),
        ("DataGate", UserError("fare has moved"), "gate_stop"),
        ("inputs", NoNewSpanError("no new span"), "skipped"),
        ("inputs", SpanNotFoundError("2026-01-02 is not there"), "failure"),
    ],
)
def test_a_container_that_fails_says_why(variables, task, error, event):
    note(variables, task, error)
    container_records(variables, json.dumps(MESSAGE)).record_window_data({"span": "2026-01-02"})
    found = container_records(variables, json.dumps(MESSAGE)).read()
    assert (found.outcome, found.message, found.span) == (event, f"{task}: {error}", "2026-01-02")


def test_a_model_that_was_not_blessed_is_told_of_with_the_reasons(variables, tmp_path, monkeypatch):
    """The task reads the verdict that the Evaluator recorded."""
    monkeypatch.setenv(OUTCOMES_VARIABLE, variables[OUTCOMES_VARIABLE])
    config = EvaluationConfig.model_validate({"thresholds": {"auc": {"min": 0.999}}})
    verdict = judge_metrics([MeasuredRows((), {"auc": 0.75, "example_count": 900.0})], config)
    (tmp_path / "verdict.json").write_text(verdict_json(verdict))
    blessing = {"blessed": 0.0, "current_model": "s3://b/m"}
    made = {"evaluation": {}, "blessing": blessing, "pushed_model": {}, "report": {}}
    listed = {name: {"artifacts": [{"uri": f"s3://b/{name}", "metadata": facts}]} for name, facts in made.items()}
    message = {"inputs": {"artifacts": listed}, "outputs": {**MESSAGE["outputs"], "outputFile": "/unused"}}
    paths = dict.fromkeys(made, "/unused") | {"evaluation": str(tmp_path)}
    record_outcome(parse_message(json.dumps(message), paths, {}))
    why = "auc is 0.7500, below the minimum 0.999 (evaluation.thresholds.auc.min)"
    facts = {"metrics": {"auc": 0.75}, "reasons": [why], "examples": 900, "blessed": False}
    facts |= {"model": "s3://b/m", "report": "s3://b/report", "evaluation": "s3://b/evaluation"}
    told = container_records(variables, json.dumps(MESSAGE)).read()
    assert told == RunFacts(run_id="run-7", outcome="not_blessed", message=why, **facts)


def test_what_stops_a_run_on_purpose_says_more_than_what_fails_beside_it(variables):
    for task in ("Aaa", "DataGate", "Zzz"):
        note(variables, task, UserError("no"))
    found = container_records(variables, json.dumps(MESSAGE)).read()
    assert (found.outcome, found.message) == ("gate_stop", "DataGate: no")


def test_a_failure_that_was_made_good_by_another_attempt_is_not_told(variables):
    note(variables, "Trainer", UserError("no"))
    notes = container_records(variables, json.dumps(MESSAGE))
    end = {"outcome": "success", "message": "pushed to /models/1", "metrics": {"auc": 0.9}}
    notes.record_end(end)
    assert notes.read() == RunFacts(run_id="run-7", **end)


def test_a_run_that_left_no_word_has_failed(variables, tmp_path):
    note(variables, "Trainer", UserError("no"))
    other = OutcomeRecords(f"{tmp_path}/taxi/outcomes", "run-8").read()
    assert other.outcome == "failure" and "left no record" in other.message


def test_where_nobody_is_told_nothing_is_noted(tmp_path):
    note({}, "Trainer", UserError("no"))
    note({OUTCOMES_VARIABLE: "/dev/null/taxi/outcomes"}, "Trainer", UserError("no"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def told_package(compile_taxi, tmp_path_factory):
    """Returns the taxi package with a program as receiver, and the file that the program writes to."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "tell.py").write_text(TELL)
    hook = json.dumps({"command": [sys.executable, str(folder / "tell.py"), str(folder / "heard")]})
    environment = ENVIRONMENT.replace("/models", f"{folder}/models").replace(
        "registry: ", f"folder: {folder}\nregistry: "
    )
    environment += "  Notify: {secrets: [{name: alerts, env: {ALERT_TOKEN: token}}]}\n"
    lines = environment.splitlines()
    lines.insert(lines.index("image_pull_secrets: [registry-login]"), lines.pop())
    compiled = compile_taxi("\n".join(lines) + "\n", edit={"training: {": f"notify: [{hook}]\ntraining: {{"})
    return compiled.package, folder / "heard"


@pytest.mark.integration
def test_all_tasks_but_one_are_in_a_dag_and_that_one_runs_when_it_has_ended(told_package, taxi_package):
    package, _ = told_package
    root = package.pipeline["root"]["dag"]["tasks"]
    assert set(root) == {"pipeline", "notify"} and root["notify"]["dependentTasks"] == ["pipeline"]
    inside = package.pipeline["components"]["comp-pipeline"]["dag"]["tasks"]
    assert set(inside) == {"find-inputs", "nodes"}
    nodes = [found.pipeline["components"]["comp-nodes"]["dag"]["tasks"] for found in (package, taxi_package)]
    assert set(nodes[0]) == set(nodes[1]) | {"record-outcome"}
    assert root["pipeline"]["inputs"]["parameters"] == {
        name: {"componentInputParameter": name} for name in ("data_path", "gate")
    }
    assert lint(package, "2.5") == lint(package, "2.17") == []
    from kfp import components

    assert components.load_component_from_text(to_yaml(package)).pipeline_spec.root.dag.tasks


@pytest.mark.integration
@pytest.mark.parametrize("killed", [False, True])
def test_receivers_are_told_of_a_run_that_failed(told_package, tmp_path, killed):
    package, heard = told_package
    heard.unlink(missing_ok=True)
    spec = copy.deepcopy(package.pipeline)
    dag = spec["components"]["comp-pipeline"]["dag"]
    dag["tasks"] = {"find-inputs": dag["tasks"]["find-inputs"]}
    backend = Backend(tmp_path / "kfp", release="2.5")
    backend.secrets |= {"alerts": {"token": "s3cr3t"}, "store": {"accesskey": "a", "secretkey": "b"}}
    if killed:
        backend.started = lambda task, _, process: process.send_signal(signal.SIGKILL) if "find" in task else None
    text = as_text(spec) + "---\n" + as_text(package.platform)
    with pytest.raises(TaskFailed, match="task 'find-inputs': exit status"):
        backend.run(text, {"data_path": "nothing/*.csv"})
    [payload] = map(json.loads, heard.read_text().splitlines())
    assert (payload["event"], payload["exit_code"], payload["pipeline"]) == ("failure", 1, "taxi")
    assert payload["secret"] == "s3cr3t" and Path(payload["file"]).name == "pipeline.yaml"
    expected = "a task left no record of its failure" if killed else "inputs: "
    assert payload["text"].startswith(f"taxi: failure: {expected}") and (killed or "nothing/*.csv" in payload["text"])
    [sent] = [key for key in backend.store.keys() if key.endswith("/sent/payload.json")]
    assert json.loads(backend.store.path(sent).read_text())["run_id"] == payload["run_id"] == sent.split("/")[-5]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (ENVIRONMENT, r"notify\[0\]\.url_env: the container .* has no variable ALERT_URL.*nodes\.Notify"),
        (ENVIRONMENT.replace('"2.5"', '"2.4"'), "notify: needs Kubeflow Pipelines 2.5 or later"),
    ],
)
def test_receivers_that_cannot_be_told_are_refused_when_compiled(compile_taxi, environment, expected):
    with pytest.raises(UserError, match=expected):
        compile_taxi(environment, edit={"training: {": "notify: [{url_env: ALERT_URL}]\ntraining: {"})
