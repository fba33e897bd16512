"""`make check-airflow`: a real Airflow 3 in a separate environment reads and runs a DAG file.

AIRFLOW=FOLDER is a virtual environment with Airflow. Airflow runs the tasks with the `fullpass` on PATH.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.kubeflow_package import taxi_lines
from tests.live.servers import needed

PIPELINE = """\
name: taxi
data:
  source: {format: csv, path: "trips/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 2}
  derive: {big_tipper: tips > 0.2 * fare}
label: {name: big_tipper, task: binary}
features: {fare: number, payment_type: category}
model: linear
training: {epochs: 1, batch_size: 64}
evaluation: {metrics: [auc], thresholds: {auc: {min: 0.01}}}
schedule: {cron: "0 3 * * 1-5", timezone: Europe/Zurich}
"""
SETTINGS = "nodes: {Trainer: {retries: {count: 2, backoff: 1m}, timeout: 1h, pool: gpu}}\n"
ROWS = 600
READ = """
import json, sys
import pendulum
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction
bag = DagBag(sys.argv[1])
dag = bag.dags["taxi"]
trainer = dag.get_task("Trainer")
kept = DagSerialization.from_dict(DagSerialization.to_dict(dag))  # as the scheduler has it
friday = TimeRestriction(earliest=pendulum.datetime(2013, 1, 4, 12), latest=None, catchup=True)
print("FOUND", json.dumps({
    "errors": bag.import_errors,
    "order": [task.task_id for task in dag.topological_sort()],
    "after": {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks},
    "trainer": [trainer.retries, trainer.retry_delay.total_seconds(), trainer.execution_timeout.total_seconds(),
                trainer.pool],
    "limits": [kept.max_active_runs, kept.max_active_tasks, kept.catchup],
    "next": kept.timetable.next_dagrun_info(last_automated_data_interval=None, restriction=friday)
        .run_after.isoformat(),
    "span": dag.user_defined_macros["span_of"](pendulum.datetime(2013, 1, 7, 23, 30, tz="UTC")),
}))
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """The folder of Airflow's programs, and the variables of an installation whose only DAG is of a small pipeline."""
    programs = needed("AIRFLOW", "`make check-airflow` installs Airflow there.") / "bin"
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "trips").mkdir()
    (folder / "dags").mkdir()
    header, *rows = taxi_lines(2 * ROWS)
    for day in (0, 1):
        text = header + "".join(rows[day * ROWS : (day + 1) * ROWS])
        (folder / "trips" / f"2013-01-0{3 + day}.csv").write_text(text)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "airflow.yaml").write_text(SETTINGS)
    compile_ = ["fullpass", "compile", "pipeline.yaml", "--for", "airflow", "--env", "airflow.yaml"]
    done = subprocess.run([*compile_, "-o", "dags/taxi.py"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    env = {
        **os.environ, "AIRFLOW_HOME": str(folder / "home"), "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }  # fmt: skip
    for command in (["db", "migrate"], ["pools", "set", "gpu", "1", "the GPU"]):
        subprocess.run([programs / "airflow", *command], env=env, check=True, capture_output=True)
    return programs, env


def in_airflow(airflow: tuple[Path, dict[str, str]], *command: str) -> subprocess.CompletedProcess[str]:
    programs, env = airflow
    return subprocess.run([programs / command[0], *command[1:]], env=env, capture_output=True, text=True, timeout=1800)


def test_airflow_reads_the_graph_the_schedule_and_the_limits(airflow):
    _, env = airflow
    read = in_airflow(airflow, "python", "-c", READ, env["AIRFLOW__CORE__DAGS_FOLDER"])
    [line] = [line for line in read.stdout.splitlines() if line.startswith("FOUND ")] or [read.stderr]
    found = json.loads(line.removeprefix("FOUND "))
    assert found["errors"] == {}
    assert found["order"][0] == "Ingest" and found["order"][-1] == "Report" and len(found["order"]) == 16
    assert found["after"]["Trainer"] == ["DataGate", "Transform"] and found["after"]["Schema"] == ["Ingest"]
    assert found["trainer"] == [2, 60.0, 3600.0, "gpu"]
    assert found["limits"] == [1, 1, False]
    # Monday at 03:00 in Zurich.
    assert found["next"] == "2013-01-07T02:00:00+00:00"
    # It is 00:30 of the 8th in Zurich, so the last complete day is the 7th.
    assert found["span"] == "2013-01-07"


def test_airflow_runs_every_node_to_a_pushed_model(airflow):
    _, env = airflow
    folder = Path(env["AIRFLOW_HOME"]).parent
    ran = in_airflow(airflow, "airflow", "dags", "test", "taxi", "2013-01-05T02:00:00+00:00")
    (folder / "run.log").write_text(ran.stdout + ran.stderr)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
    assert (folder / "serving" / "current" / "saved_model.pb").is_file(), (ran.stdout + ran.stderr)[-4000:]
    asked = in_airflow(airflow, "airflow", "dags", "list-runs", "taxi", "--output", "json")
    # Warnings precede the last line.
    [run] = json.loads(asked.stdout.splitlines()[-1])
    assert run["state"] == "success"
