import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fullpass.base import state_file
from fullpass.pipeline.cli import app
from fullpass.pipeline.record.history import RunHistory, RunRecord
from fullpass.pipeline.record.list_runs import UNFINISHED, read_runs, run_cells, table
from fullpass.pipeline.root.layout import RootLayout
from tests.pipeline.conftest import VALID

CODE = {"fullpass": "1.0", "line": "tfx 1.16", "user": None}
FIRST = RunRecord(
    "20260101-030000-000000", "2026-01-01T03:00:05+00:00", "2026-01-01T03:01:05+00:00", "success", 0, "d1", "c1", True,
    unit="day", first=20000, last=20004, pushed_to="/serving/1",
)  # fmt: skip


def write(root: Path, record: RunRecord | None, run_id: str, yaml: str = VALID, code=CODE, **summary) -> None:
    if record is not None:
        RunHistory(root).record(replace(record, run_id=run_id))
    logs = RootLayout(root).run_logs(run_id)
    logs.mkdir(parents=True)
    facts = {"run": run_id, "config": {"hash": str(hash(yaml)), "yaml": yaml}, "code": code}
    (logs / "run.json").write_text(json.dumps(facts))
    if summary:
        state_file.write(logs / "summary.json", summary)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The runs of a root: pushed, refused on other data with another YAML, failed, and killed."""
    write(tmp_path, FIRST, FIRST.run_id, rows_read=100, blessed=True, metrics={"auc": 0.9})
    refused = replace(
        FIRST, outcome="not_blessed", exit_code=3, data="d2", last=20005, pushed_to=None, message="auc is 0.7000, below"
    )
    edited = VALID.replace("fare: number", "fare: number\n  zone: number")
    write(tmp_path, refused, "20260102-030000-000000", edited, rows_read=120, blessed=False, metrics={"auc": 0.7})
    failed = replace(refused, outcome="failure", exit_code=1, message="Transform: ValueError")
    write(tmp_path, failed, "20260103-030000-000000", edited, CODE | {"fullpass": "1.1", "user": "ab"})
    write(tmp_path, None, "20260104-030000-000000", edited, CODE | {"fullpass": "1.1", "user": "ab"})
    (RootLayout(tmp_path).logs / "20260105-030000-000000").mkdir()  # killed before it wrote anything
    return tmp_path


def test_every_run_is_listed_with_what_changed_before_it(root: Path):
    killed, failed, refused, first = read_runs(root, 10)
    assert (first.changes, first.outcome, first.seconds, first.metrics) == (None, "success", 60, {"auc": 0.9})
    assert first.spans == ("2024-10-04", "2024-10-08")
    assert refused.changes == (
        "+ features.zone number",
        "data: 2024-10-04 to 2024-10-08 -> 2024-10-04 to 2024-10-09, 100 -> 120 rows",
    )
    assert (refused.blessed, refused.message, refused.rows) == (False, "auc is 0.7000, below", 120)
    assert failed.changes == ("code: Fullpass 1.0 -> 1.1", "code: your functions")
    assert (failed.outcome, failed.blessed, failed.metrics) == ("failure", None, {})
    assert (killed.outcome, killed.started, killed.changes) == (UNFINISHED, None, ())


def test_the_last_runs_are_compared_with_the_run_before_them(root: Path):
    killed, failed, refused = read_runs(root, 3)
    assert refused.changes is not None and len(refused.changes) == 2


def test_runs_without_logs_are_listed_by_the_history(root: Path):
    for file in RootLayout(root).logs.rglob("*.json"):
        file.unlink()
    RunHistory(root).record(replace(FIRST, run_id="20260106", config="c2"))
    newest, failed, refused, first = read_runs(root, 10)
    assert newest.changes == (
        "the YAML (the logs with its text are gone)",
        "data: 2024-10-04 to 2024-10-09 -> 2024-10-04 to 2024-10-08",
    )
    assert (first.metrics, first.rows, first.config_hash) == ({}, None, None)


def test_a_table_of_narrow_width_loses_no_word(root: Path):
    console = Console(width=80, record=True)
    console.print(table(read_runs(root, 10), root))
    text = console.export_text()
    assert "20260102-030000-000000" in text and "not blessed" in text and "0.7000" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_command_prints_a_table_and_json(root: Path, edited, capsys):
    file = edited()
    for options in ([], ["--json", "--last", "2"]):
        app(["runs", str(file), "--root", str(root), *options], standalone_mode=False)
        out = capsys.readouterr().out
        assert "20260104-030000-000000" in out
    assert [run["outcome"] for run in json.loads(out)] == [UNFINISHED, "failure"]
    app(["runs", str(file)], standalone_mode=False)
    assert "No run has been made in" in capsys.readouterr().out


def test_thousands_of_runs_are_listed_as_fast_as_few(root: Path):
    history = RunHistory(root)
    with history._transaction() as database:
        values = list(vars(FIRST).values())[1:]
        database.executemany(
            f"INSERT INTO run VALUES ({', '.join('?' * 15)})",
            [[f"2025{i:04d}", "", *values[:5], "day", 1, 2, "d", "c", 1, None, None] for i in range(5000)],
        )
    for i in range(2000):
        (RootLayout(root).logs / f"2025{i:04d}").mkdir()
    begin = time.monotonic()
    assert [run.run_id[:8] for run in read_runs(root, 3)] == ["20260104", "20260103", "20260102"]
    assert time.monotonic() - begin < 2


def test_the_metrics_of_a_run_stay_after_its_logs_are_gone(tmp_path: Path):
    """As `fullpass gc` leaves it: the row of the history, without the folder of the logs."""
    RunHistory(tmp_path).record(
        replace(FIRST, measured=json.dumps({"rows_read": 100, "blessed": True, "metrics": {"auc": 0.9, "mse": None}}))
    )
    [run] = read_runs(tmp_path, 10)
    assert (run.metrics, run.rows, run.blessed, run.outcome) == ({"auc": 0.9}, 100, True, "success")


def test_runs_say_what_their_model_is_now(tmp_path: Path):
    target = tmp_path / "serving"
    for folder in ("1", "rolled_back-2", "3"):
        (target / folder).mkdir(parents=True)
    for day, version in enumerate((9, 1, 2, 3), start=1):
        run = replace(FIRST, run_id=f"2026010{day}-030000-000000", pushed_to=str(target / str(version)))
        RunHistory(tmp_path).record(run)
    runs = read_runs(tmp_path, 10)
    assert [run.model_now for run in runs] == ["served", "put aside", "kept", "gone"]
    said = [row[-1] for row in run_cells(runs, None)[1]]
    assert said == [
        "version 3, served now",
        "version 2, not served now (put aside)",
        "version 1, not served now (a newer one is)",
        "version 9, not served now (removed)",
    ]
    refused = replace(runs[0], outcome="not_blessed", message="auc is low")
    assert run_cells([refused], None)[1][0][-1] == "auc is low; version 3, served now", "a person pushed it"
