"""A DAG file for Airflow, read as Python and checked with the command line. check-airflow runs it in a real Airflow."""

import ast
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fullpass.base.errors import UserError
from fullpass.kubeflow.airflow.airflow_dag import AirflowDag, airflow_dag
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.cli import app
from fullpass.pipeline.running.build import build
from tests.pipeline.conftest import TRIPS, VALID

pytestmark = pytest.mark.integration
SETTINGS = """\
program: /opt/full pass/bin/fullpass
file: /pipelines/taxi.yaml
root: /pipelines/runs
defaults: {retries: {count: 2, backoff: 1m}, env: {OMP_NUM_THREADS: "4"}}
nodes: {Trainer: {pool: gpu, queue: gpus, timeout: 6h}}
"""


@pytest.fixture
def compiled(tmp_path):
    """Returns `compiled(schedule, path, settings)`, which compiles the DAG file of a small pipeline in `tmp_path`."""

    def compile_(schedule: str = "", path: str = "trips.csv", settings: str | None = None) -> AirflowDag:
        lines = f"schedule: {schedule}\n" if schedule else ""
        (tmp_path / "pipeline.yaml").write_text(VALID.replace("trips.csv", f'"{path}"') + lines)
        (tmp_path / "airflow.yaml").write_text(settings or "")
        return airflow_dag(load(tmp_path / "pipeline.yaml"), tmp_path / "airflow.yaml" if settings else None)

    return compile_


def test_the_name_of_a_file_adds_no_code(tmp_path):
    file = tmp_path / 'odd"""\nimport os\n\\.yaml'
    file.write_text(VALID)
    document, *code = ast.parse(airflow_dag(load(file)).text).body
    assert not any("os" in [name.name for name in one.names] for one in code if isinstance(one, ast.Import))
    assert isinstance(document, ast.Expr) and isinstance(document.value, ast.Constant)
    assert document.end_lineno == 1


def tasks_of(dag: AirflowDag) -> dict[str, dict[str, Any]]:
    """Returns the tasks in the DAG file, read without Airflow."""
    [tasks] = [
        statement.value
        for statement in ast.parse(dag.text).body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "TASKS"
    ]
    return ast.literal_eval(tasks)


def test_each_node_is_a_task_in_the_order_of_the_graph(compiled, tmp_path):
    tasks = tasks_of(compiled())
    (tmp_path / "trips.csv").write_text(TRIPS)
    nodes = build(load(tmp_path / "pipeline.yaml"), root=tmp_path / "root").components
    assert list(tasks) == [node.id for node in nodes]
    first = nodes[0].id
    for node in nodes[1:]:
        assert tasks[node.id]["after"] == (sorted(other.id for other in node.upstream_nodes) or [first])
    assert tasks[first]["after"] == []


def test_each_command_is_one_of_the_command_line(compiled):
    run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    for number, (name, task) in enumerate(tasks_of(compiled(settings=SETTINGS, path="{YYYY}-{MM}-{DD}.csv")).items()):
        program, verb, *words = shlex.split(task["command"])
        given = run.make_context("run", words).params
        assert (program, verb) == ("/opt/full pass/bin/fullpass", "run")
        assert (str(given["file"]), str(given["root"])) == ("/pipelines/taxi.yaml", "/pipelines/runs")
        assert (given["from_node"], given["to_node"]) == (None if number == 0 else name, name)
        assert given["wait"] and given["span"] == "$SPAN"


def test_retries_time_outs_and_pools_are_those_of_the_settings_file(compiled):
    tasks = tasks_of(compiled(settings=SETTINGS))
    tries = {"retries": 2, "retry_delay": 60.0, "retry_exponential_backoff": 2.0, "max_retry_delay": 600.0}
    assert tasks["Transform"]["options"] == tries and "seconds" not in tasks["Transform"]
    assert tasks["Trainer"]["options"] == tries | {"pool": "gpu", "queue": "gpus"}
    assert tasks["Trainer"]["seconds"] == 6 * 3600 and tasks["Trainer"]["env"] == {"OMP_NUM_THREADS": "4"}
    # A retry of the gate would only repeat its findings.
    assert tasks["DataGate"]["options"] == {"retries": 0}


def test_a_late_span_skips_or_fails_as_the_schedule_says(compiled):
    dated = "{YYYY}-{MM}-{DD}.csv"
    assert tasks_of(compiled('{cron: "0 3 * * *"}', dated))["Ingest"]["skip"] == [4]
    assert tasks_of(compiled('{cron: "0 3 * * *", on_late: fail}', dated))["Ingest"]["skip"] == []
    assert tasks_of(compiled())["Evaluator"]["skip"] == [3]


def test_the_schedule_is_that_of_the_yaml(compiled):
    text = compiled('{cron: "0 3 * * 1-5", timezone: Europe/Zurich, lag: 2}', "{YYYY}-{MM}-{DD}.csv").text
    assert "schedule=CronTriggerTimetable('0 3 * * 1-5', timezone='Europe/Zurich')" in text
    assert ".subtract(days=2).format('YYYY-MM-DD')" in text and "catchup=False" in text
    without = compiled().text
    assert "schedule=None" in without and "SPAN" not in without and "Param" not in without


@pytest.mark.parametrize(
    ("schedule", "path", "message"),
    [
        ("{new_span: true}", "{SPAN}.csv", "schedule.new_span: a DAG file starts runs at set times"),
        ('{cron: "0 3 * * *", timeout: 6h}', "{YYYY}.csv", "schedule.wait_for and timeout"),
        ('{cron: "0 3 * * *"}', "{SPAN}.csv", "numbered spans have no scheduled time"),
        ('{cron: "0 0 3 * * *"}', "{YYYY}.csv", "five fields"),
        ('{cron: "0 3 * * *", catch_up: each}', "{YYYY}.csv", "Give `start: 2026-01-01`"),
    ],
)
def test_what_a_dag_file_does_not_do_is_refused(compiled, schedule, path, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        compiled(schedule, path)


def test_mistakes_of_the_settings_file_are_located(compiled):
    with pytest.raises(ConfigError, match='airflow.yaml:2: nodes.Trainr: .* Did you mean "Trainer"'):
        compiled(settings="nodes:\n  Trainr: {pool: gpu}\n")
    with pytest.raises(UserError, match="Airflow would replace the braces as a template"):
        compiled(settings='file: "/pipelines/{{ds}}.yaml"\n')
    with pytest.raises(ConfigError, match="environment of the workers"):
        compiled(settings="defaults: {env: {AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY}}\n")


def test_vertex_is_refused_with_the_reason(tmp_path):
    refused = CliRunner().invoke(app, ["compile", str(tmp_path / "pipeline.yaml"), "--for", "vertex"])
    assert refused.exit_code and "cannot mount the volumes and secrets" in " ".join(refused.output.split())
    unknown = CliRunner().invoke(app, ["compile", str(tmp_path / "pipeline.yaml"), "--for", "argo"])
    assert unknown.exit_code and "not one of kubeflow, airflow" in " ".join(unknown.output.split())
