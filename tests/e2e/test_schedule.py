"""A schedule from the user's view: a day that is late, a scheduler that is killed, a backfill that is stopped."""

import json
import os
import signal
import sqlite3
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import warm_process
from tests.e2e.conftest import BIN

pytestmark = pytest.mark.e2e

# A time zone in which it is about noon, so that midnight does not fall into the test.
OFFSET = 12 - datetime.now(UTC).hour
ZONE = f"Etc/GMT{-OFFSET:+d}"
TODAY = (datetime.now(UTC) + timedelta(hours=OFFSET)).date()
YESTERDAY, BEFORE = TODAY - timedelta(days=1), TODAY - timedelta(days=2)
YAML = """\
name: daily
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: tip, task: regression}
features:
  fare: {type: number, transforms: [z_score]}
  zone: category
model: {kind: linear}
training: {epochs: 1}
evaluation: {thresholds: {rmse: {max: 1000}}}
schedule: {cron: "*/5 * * * * *", timezone: ZONE, wait_for: "data/{YYYY}-{MM}-{DD}.done", poll: 1s, MORE}
notify: [{command: [sh, -c, "cat >> told.jsonl; echo >> told.jsonl"]}]
"""
DONE = ("success", "not_blessed")


def write_day(folder, day, rows=200):
    lines = [f"{day}-{i},{i % 7 + day.day},z{i % 4},{i % 3}" for i in range(rows)]
    (folder / "data" / f"{day}.csv").write_text("id,fare,zone,tip\n" + "\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path
    (folder / "data").mkdir()
    for day in (YESTERDAY, BEFORE):
        write_day(folder, day)
    (folder / "data" / f"{BEFORE}.done").touch()
    return folder


def write_yaml(folder, more):
    (folder / "pipeline.yaml").write_text(YAML.replace("ZONE", ZONE).replace("MORE", more))
    return folder / "pipeline.yaml"


def told(folder):
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines() if line]


def trained(folder, runs="runs/daily"):
    """Returns (span, outcome, pushed) of the runs that trained, read with sqlite3."""
    with sqlite3.connect(folder / runs / "history.sqlite") as database:
        rows = database.execute("SELECT last, outcome, pushed_to FROM runs WHERE trained ORDER BY run_id").fetchall()
    day = datetime(1970, 1, 1).date()
    return [(day + timedelta(days=last), outcome, pushed is not None) for last, outcome, pushed in rows]


class Command:
    """A running command whose output can be read while it runs."""

    def __init__(self, folder, *arguments):
        self.printed = folder / f"printed-{time.monotonic_ns()}"
        with self.printed.open("wb") as printed:
            self.process = warm_process.Process(
                [str(BIN / "fullpass"), *map(str, arguments)],
                stdout=printed,
                stderr=printed,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def until(self, text, seconds=500):
        deadline = time.monotonic() + seconds
        while text not in self.printed.read_text():
            assert time.monotonic() < deadline and self.process.poll() is None, self.printed.read_text()
            time.sleep(0.1)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(200)


@contextmanager
def command(folder, *arguments):
    running = Command(folder, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)


@pytest.mark.long
def test_a_late_day_is_trained_once_though_the_scheduler_is_killed_meanwhile(fullpass, folder):
    file = write_yaml(folder, "timeout: 20m")
    with command(folder, "schedule", "run", file) as first:
        first.until(f"waiting for span {YESTERDAY}")
        refused = fullpass("fullpass", "schedule", "run", file, timeout=300)
        assert refused.returncode == 1 and "process" in refused.stderr, "a second scheduler"
        (folder / "data" / f"{YESTERDAY}.done").touch()
        first.until(": started, prints to")
        first.end(signal.SIGKILL)
    with command(folder, "schedule", "run", file) as second:
        second.until("still running, started by an earlier scheduler")
        second.until(": success. pushed to")
        second.until("was trained already, by run")
        assert second.end(signal.SIGTERM) == 0
    assert trained(folder) == [(YESTERDAY, "success", True)]
    (success,) = [event for event in told(folder) if event["event"] == "success"]
    assert success["span"] == str(YESTERDAY) and success["occasion"].startswith("cron ")
    assert Path(success["pushed_to"]).is_dir() and Path(success["report"]).is_file() and Path(success["logs"]).is_dir()

    listed = fullpass("fullpass", "schedule", "list", file, "--runs", "1000", timeout=300)
    assert f"{YESTERDAY}  success" in listed.stdout and "  next" in listed.stdout, listed.stdout
    done = fullpass("fullpass", "schedule", "run", file, "--once", timeout=300)
    assert done.returncode == 6 and f"{YESTERDAY}" in done.stdout and "was trained already" in done.stdout


@pytest.mark.long
def test_a_backfill_goes_on_where_it_was_stopped_and_leaves_the_newest_served(fullpass, folder):
    file = write_yaml(folder, "timeout: 20m")
    done = fullpass("fullpass", "run", file, "--span", YESTERDAY)
    assert done.returncode == 0, done.stdout + done.stderr
    versions = sorted(path.name for path in (folder / "serving").iterdir())
    days = f"{BEFORE}:{YESTERDAY}"
    with command(folder, "backfill", file, days) as stopped:
        stopped.until(f"[1/2] {BEFORE}: started")
        assert stopped.end(signal.SIGINT) == 1
        assert "2 steps, 1 done already" in stopped.printed.read_text()
        assert "interrupted. The same command continues from here." in stopped.printed.read_text()
    assert len(trained(folder)) == 1
    done = fullpass("fullpass", "backfill", file, days)
    assert done.returncode == 0 and f"[1/2] {BEFORE}: success, not pushed" in done.stdout, done.stdout + done.stderr
    assert trained(folder)[1:] == [(BEFORE, "success", False)]
    assert sorted(path.name for path in (folder / "serving").iterdir()) == versions
    again = fullpass("fullpass", "backfill", file, days, timeout=300)
    assert again.returncode == 0 and "2 steps, 2 done already" in again.stdout and "started" not in again.stdout


@pytest.mark.long
def test_a_backfill_of_the_last_only_ingests_all_and_trains_once(fullpass, folder):
    early = BEFORE - timedelta(days=1)
    write_day(folder, early, rows=300)
    file = write_yaml(folder, "timeout: 20m")
    file.write_text(file.read_text().replace("  split:", "  window: {spans: 2}\n  split:"))
    backfill = ("fullpass", "backfill", file, f"{early}:{YESTERDAY}", "--last-only", "--root", folder / "last")
    done = fullpass(*backfill)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{early}:{YESTERDAY}: ingest: success" in done.stdout and f"[1/1] {YESTERDAY}: success" in done.stdout
    assert "not pushed" not in done.stdout, done.stdout
    assert trained(folder, "last") == [(YESTERDAY, "success", True)]

    ingest, train = (json.loads(path.read_text()) for path in sorted(folder.glob("last/logs/*/run.json")))
    ran = {name for name, node in ingest["nodes"].items() if node["status"] == "ok"}
    assert "Ingest" in ran and not ran & {"Transform", "Trainer"} and ingest["rows_read"] == 700
    assert train["rows_read"] == 400 == sum(train["rows"].values()), "the window of the last span is the last two"
    with sqlite3.connect(folder / "last" / "metadata.sqlite") as database:
        query = "SELECT count(*) FROM Artifact WHERE uri LIKE '%/Ingest/examples/%' AND state = 2"
        assert database.execute(query).fetchone() == (3,), "each day once, by the first run"

    again = fullpass(*backfill, timeout=300)
    assert again.returncode == 0 and "1 step, 1 done already" in again.stdout and "started" not in again.stdout
