import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fullpass.pipeline.cli import app
from fullpass.pipeline.record.facts import UNFINISHED, RunFacts, write_facts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.list_runs import read_runs, run_cells, table
from fullpass.pipeline.root.layout import RootLayout
from tests.pipeline.conftest import VALID
from tests.trainer.insight.test_leaderboard import TRIED

CODE = {"fullpass": "1.0", "line": "tfx 1.16", "user": None}
FIRST = RunFacts(
    run_id="20260101-030000-000000", started="2026-01-01T03:00:05+00:00", ended="2026-01-01T03:01:05+00:00", seconds=60,
    outcome="success", message="", exit_code=0, data_digest="d1", config_digest="c1", trained=True, unit="day",
    first=20000, last=20004, first_span="2024-10-04", span="2024-10-08", pushed_to="/serving/1",
    rows_read=100, blessed=True, metrics={"auc": 0.9, "mse": None},
)  # fmt: skip


def write(root: Path, facts: RunFacts, yaml: str = VALID, code=CODE) -> None:
    """Writes what a run leaves: its file, and its row in the history if it has ended."""
    facts = replace(facts, config={"hash": str(hash(yaml)), "yaml": yaml}, code=code)
    if facts.outcome != UNFINISHED:
        RunHistory(root).record(facts)
    file = RootLayout(root).run_file(facts.run_id)
    file.parent.mkdir(parents=True)
    write_facts(facts, file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The runs of a root: pushed, refused on other data with another YAML, failed, and killed."""
    write(tmp_path, FIRST)
    spans = {"last": 20005, "span": "2024-10-09", "pushed_to": None}
    refused = replace(FIRST, run_id="20260102-030000-000000", outcome="not_blessed", data_digest="d2", **spans)
    judged = {"rows_read": 120, "blessed": False, "metrics": {"auc": 0.7}}
    edited = VALID.replace("fare: number", "fare: number\n  zone: number")
    write(tmp_path, replace(refused, message="auc is 0.7000, below", **judged), edited)
    failed = replace(refused, run_id="20260103-030000-000000", outcome="failure", blessed=None, metrics={}, rows_read=0)
    write(tmp_path, failed, edited, CODE | {"fullpass": "1.1", "user": "ab"})
    write(tmp_path, RunFacts(run_id="20260104-030000-000000"), edited, CODE | {"fullpass": "1.1", "user": "ab"})
    (RootLayout(tmp_path).logs / "20260105-030000-000000").mkdir()  # killed before it wrote anything
    return tmp_path


def test_every_run_is_listed_with_what_changed_before_it(root: Path):
    killed, failed, refused, first = read_runs(root, 10)
    assert (first.changes, first.facts.outcome, first.seconds, first.metrics) == (None, "success", 60, {"auc": 0.9})
    assert first.facts.spans == ("2024-10-04", "2024-10-08")
    assert refused.changes == (
        "+ features.zone number",
        "data: 2024-10-04 to 2024-10-08 -> 2024-10-04 to 2024-10-09, 100 -> 120 rows",
    )
    assert (refused.facts.message, refused.facts.rows_read) == ("auc is 0.7000, below", 120)
    assert failed.changes == ("code: Fullpass 1.0 -> 1.1", "code: your functions")
    assert (failed.facts.outcome, failed.facts.blessed, failed.metrics) == ("failure", None, {})
    assert (killed.facts.outcome, killed.started, killed.changes) == (UNFINISHED, None, ())


def test_the_last_runs_are_compared_with_the_run_before_them(root: Path):
    killed, failed, refused = read_runs(root, 3)
    assert refused.changes is not None and len(refused.changes) == 2


def test_runs_without_logs_are_listed_by_the_history(root: Path):
    """As `fullpass gc` leaves them: rows of the history, with their metrics, without the files of the logs."""
    for file in RootLayout(root).logs.rglob("*.json"):
        file.unlink()
    RunHistory(root).record(replace(FIRST, run_id="20260106", config_digest="c2"))
    newest, failed, refused, first = read_runs(root, 10)
    assert newest.changes == (
        "the YAML (the logs with its text are gone)",
        "data: 2024-10-04 to 2024-10-09 -> 2024-10-04 to 2024-10-08",
    )
    assert (first.metrics, first.facts.rows_read, first.facts.blessed) == ({"auc": 0.9}, 100, True)
    assert first.listing["config_hash"] is None and refused.changes == (
        "data: 2024-10-04 to 2024-10-08 -> 2024-10-04 to 2024-10-09, 100 -> 120 rows",
    )


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


def test_the_command_prints_what_the_runs_tried(root: Path, edited, capsys):
    file = edited()
    app(["runs", str(file), "--root", str(root), "--leaderboard"], standalone_mode=False)
    assert "tried one model each" in capsys.readouterr().out
    write(root, replace(FIRST, run_id="20260106-030000-000000", training=TRIED))
    app(["runs", str(file), "--root", str(root), "--leaderboard", "--json"], standalone_mode=False)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["run"][:8], row["model"], row["eval_auc"]) for row in rows][0] == ("20260106", "blend", 0.9)
    app(["runs", str(file), "--root", str(root), "--leaderboard"], standalone_mode=False)
    assert "wide_deep" in capsys.readouterr().out


def test_thousands_of_runs_are_listed_as_fast_as_few(root: Path):
    RunHistory(root).record(*(replace(FIRST, run_id=f"2025{i:04d}") for i in range(5000)))
    for i in range(2000):
        (RootLayout(root).logs / f"2025{i:04d}").mkdir()
    begin = time.monotonic()
    assert [run.facts.run_id[:8] for run in read_runs(root, 3)] == ["20260104", "20260103", "20260102"]
    assert time.monotonic() - begin < 2


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
    refused = replace(runs[0], facts=replace(runs[0].facts, outcome="not_blessed", message="auc is low"))
    assert run_cells([refused], None)[1][0][-1] == "auc is low; version 3, served now", "a person pushed it"
