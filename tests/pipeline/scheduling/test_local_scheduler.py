"""`fullpass schedule run --once` as cron calls it, for a day that is late: exit codes, messages, and who is told."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.root.check import claim_root

pytestmark = pytest.mark.integration

# A zone in which it is about noon, so that no midnight falls into the test.
OFFSET = 12 - datetime.now(UTC).hour
YESTERDAY = (datetime.now(UTC) + timedelta(hours=OFFSET)).date() - timedelta(days=1)
YAML = """\
name: daily
data: {source: {format: csv, path: "{YYYY}-{MM}-{DD}.csv"}}
label: {name: tip, task: regression}
features: {fare: number}
schedule: {cron: "0 3 * * *", timezone: ZONE, wait_for: "{YYYY}-{MM}-{DD}.done", MORE}
notify: [{command: [sh, -c, "cat >> told.jsonl; echo >> told.jsonl"]}]
"""


@pytest.fixture
def folder(tmp_path):
    """Yesterday's file, and the marker of the day before."""
    (tmp_path / f"{YESTERDAY}.csv").write_text("fare,tip\n1,2\n2,3\n")
    (tmp_path / f"{YESTERDAY - timedelta(days=1)}.done").touch()
    return tmp_path


def write_yaml(folder, more):
    text = YAML.replace("ZONE", f"Etc/GMT{-OFFSET:+d}").replace("MORE", more)
    (folder / "pipeline.yaml").write_text(text)
    return folder / "pipeline.yaml"


def fullpass(*arguments):
    command = [str(Path(sys.executable).parent / "fullpass"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def told(folder):
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines() if line]


def test_a_day_that_is_not_marked_is_skipped_or_fails_and_nothing_is_trained(folder):
    for more, code, event in (("on_late: skip", 6, "skipped"), ("on_late: fail", 4, "failure")):
        done = fullpass("schedule", "run", write_yaml(folder, more), "--once")
        assert done.returncode == code, done.stdout + done.stderr
        assert f"span {YESTERDAY}" in done.stdout and "is not there, and nothing was trained." in done.stdout
        assert (told(folder)[-1]["event"], told(folder)[-1]["exit_code"]) == (event, code)
        assert told(folder)[-1]["span"] == str(YESTERDAY)
    assert not (folder / "runs" / "daily" / "metadata.sqlite").exists()
    done = fullpass("schedule", "run", folder / "pipeline.yaml", "--once", "--skipped-ok")
    assert done.returncode == 4, "only what is skipped is all right"


WATCHING = """\
name: daily
data: {source: {format: csv, path: "{YYYY}-{MM}-{DD}.csv"}, window: {spans: 2}}
label: {name: tip, task: regression}
features: {fare: number}
gates: {drift: retrain}
schedule: {TRIGGER: true, wait_for: "{YYYY}-{MM}-{DD}.done", poll: 1s}
notify: [{command: [sh, -c, "cat >> told.jsonl; echo >> told.jsonl"]}]
"""


@pytest.fixture
def watched(tmp_path):
    """Returns a function that adds a day with its marker; a run has trained on 2024-01-01."""

    def add(day, header="fare,tip"):
        rows = [f"{n},{n}" for n in range(400)]
        (tmp_path / f"2024-01-{day:02d}.csv").write_text("\n".join([header, *rows]) + "\n")
        (tmp_path / f"2024-01-{day:02d}.done").touch()

    add(1)
    (tmp_path / "told.jsonl").touch()
    number = (datetime(2024, 1, 1) - datetime(1970, 1, 1)).days
    trained = RunFacts(run_id="r1", outcome="success", trained=True, unit="day", first=number, last=number)
    claim_root(tmp_path / "runs" / "daily", "daily")
    RunHistory(tmp_path / "runs" / "daily").record(trained)
    return add


def once(folder, trigger):
    (folder / "pipeline.yaml").write_text(WATCHING.replace("TRIGGER", trigger))
    return fullpass("schedule", "run", folder / "pipeline.yaml", "--once")


@pytest.mark.parametrize("trigger", ["new_span", "drift"])
def test_once_has_nothing_to_train_without_a_span_newer_than_the_trained_one(watched, tmp_path, trigger):
    done = once(tmp_path, trigger)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "nothing to train, there is no span newer than 2024-01-01" in done.stdout
    assert not told(tmp_path), "a scheduler is silent about it too"


def test_once_runs_for_a_new_span_once_even_if_the_run_fails(watched, tmp_path):
    watched(2, header="cost,tip")
    done = once(tmp_path, "new_span")
    assert done.returncode == 1 and "new span 2024-01-02: started" in done.stdout, done.stdout + done.stderr
    again = once(tmp_path, "new_span")
    assert again.returncode == 6 and "no span newer than 2024-01-02" in again.stdout, again.stdout + again.stderr


def test_once_skips_a_new_span_that_has_not_drifted(watched, tmp_path):
    watched(2)
    done = once(tmp_path, "drift")
    assert done.returncode == 6, done.stdout + done.stderr
    assert "drift 2024-01-02: skipped. no change exceeds a limit" in done.stdout
    assert told(tmp_path)[-1]["event"] == "skipped"


def test_once_does_not_wait_for_a_file_that_still_grows(watched, tmp_path):
    """Without markers a span is complete when two looks find the same files."""
    watched(2)
    with (tmp_path / "2024-01-02.csv").open("a") as growing:
        writer = subprocess.Popen(["sh", "-c", "while sleep 0.1; do echo 1,1; done"], stdout=growing)
        try:
            yaml = WATCHING.replace("TRIGGER", "new_span").replace('wait_for: "{YYYY}-{MM}-{DD}.done", ', "")
            (tmp_path / "pipeline.yaml").write_text(yaml)
            done = fullpass("schedule", "run", tmp_path / "pipeline.yaml", "--once")
        finally:
            writer.kill()
            writer.wait()
    assert done.returncode == 6 and "2024-01-02 still changes" in done.stdout, done.stdout + done.stderr
