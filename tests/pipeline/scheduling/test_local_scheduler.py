"""`fullpass schedule run --once` as cron calls it, for a day that is late: exit codes, messages, and who is told."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

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
