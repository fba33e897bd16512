"""Days that arrive one after the other, run as by a user, until data drift stops a run."""

import json
import shutil
import sqlite3
import subprocess

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.scheduling import drift
from tests import warm_process

pytestmark = pytest.mark.e2e

YAML = """\
name: daily
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 2}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: tip, task: regression}
features:
  fare: {type: number, transforms: [z_score]}
  zone: category
gates: {drift: stop, label: retrain}
model: linear
training: {epochs: 1}
"""


def write_day(folder, day, rows=400, *, times=1, tip=3):
    lines = [f"{day}-{i},{times * (i % 7 + 1)},z{i % 4},{i % tip}" for i in range(rows)]
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / f"2013-01-{day:02d}.csv").write_text("id,fare,zone,tip\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def daily(fullpass, tmp_path_factory):
    """Returns `daily(*options)`, which runs the pipeline. Each test continues where the previous one ended."""
    folder = tmp_path_factory.mktemp("daily")
    (folder / "pipeline.yaml").write_text(YAML)
    for day in (1, 2, 4):
        write_day(folder, day)

    def run(*options):
        return fullpass("fullpass", "run", folder / "pipeline.yaml", *options)

    run.folder = folder
    return run


def spans_in(folder):
    """Returns (span, version) of all artifacts that Ingest ever made, read from the metadata store with sqlite3."""
    with sqlite3.connect(folder / "runs" / "daily" / "metadata.sqlite") as database:
        rows = database.execute(
            "SELECT p.int_value, v.int_value FROM ArtifactProperty p JOIN ArtifactProperty v USING (artifact_id) "
            "JOIN Artifact a ON a.id = p.artifact_id WHERE p.name = 'span' AND v.name = 'version' "
            "AND a.uri LIKE '%/Ingest/%' AND a.state = 2"
        )
        return sorted(rows)


def newest_summary(folder):
    return json.loads((max((folder / "runs" / "daily" / "logs").iterdir()) / "run.json").read_text())


def kept(folder):
    """Returns the names of the stored span statistics."""
    return {path.name for path in (folder / "runs" / "daily" / "span_statistics").iterdir()}


@pytest.fixture
def measured_in_forks(monkeypatch):
    """The processes that measure the drift are forks of one that has imported TFX."""

    def run(command, *, seconds):
        done = warm_process.run(command, timeout=seconds)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.encode(), done.stderr.encode())

    monkeypatch.setattr(drift, "run_bounded", run)


def test_a_span_that_is_not_there_is_refused_before_the_run(daily):
    done = daily("--span", "2013-01-05", "--to", "Transform")
    assert done.returncode == 4 and "2013-01-01 to 2013-01-02, 2013-01-04" in done.stderr, done.stdout + done.stderr
    assert not (daily.folder / "runs" / "daily" / "metadata.sqlite").exists()


def test_a_span_like_the_one_before_passes_the_gate(daily, measured_in_forks):
    folder = daily.folder
    quiet = drift.drift_in_a_process(folder / "pipeline.yaml", span="2013-01-02:latest")
    assert quiet.findings == () and quiet.previous == "2013-01-02" and quiet.rows == 400
    known = kept(folder)
    assert len(known) == 2

    done = daily("--span", "2013-01-02", "--to", "Trainer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 spans, 2013-01-01 to 2013-01-02 (span 15707)" in done.stdout
    assert spans_in(folder) == [(15706, 0), (15707, 0)]
    assert known < kept(folder) and len(kept(folder)) == 3, "that of day 2 is found, and that of day 1 is new"
    assert "2013-01-02: within the limits, compared with 2013-01-01" in done.stdout
    facts = newest_summary(folder)
    assert facts["rows_read"] == 800
    named = {"span": "2013-01-02", "compared_with": ["2013-01-01"]}
    assert facts["data_gate"] == {
        **named,
        "stopped": False,
        "retrain": False,
        "findings": [],
        "released": [],
        "gaps": [],
        "notes": [],
    }


@pytest.mark.long
def test_a_window_moves_by_its_new_span_and_an_old_one_that_changed(daily):
    folder = daily.folder
    if not (folder / "runs" / "daily" / "metadata.sqlite").exists():  # of long tests alone it is the first
        daily("--span", "2013-01-02", "--to", "Transform")
    first, moved = [(15706, 0), (15707, 0)], ("--span", "2013-01-02:latest", "--to", "Transform")
    done = daily(*moved)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of the window missing: 2013-01-03" in done.stdout
    assert "1 span taken from the cache" in done.stdout and "1 analysed, not analysed before: 2013-01-04" in done.stdout
    assert newest_summary(folder)["analysis"] == {
        "hit": ["2013-01-02"],
        "missed": {"2013-01-04": "not analysed before"},
    }
    assert spans_in(folder) == [*first, (15709, 0)]

    write_day(folder, 2, rows=300)
    done = daily(*moved)
    assert done.returncode == 0, done.stdout + done.stderr
    assert spans_in(folder) == sorted([*first, (15709, 0), (15707, 1)])
    summary = newest_summary(folder)
    assert summary["rows_read"] == 700 == sum(summary["rows"].values())
    assert {name: node["status"] for name, node in summary["nodes"].items()}["Transform"] == "ok"

    done = daily(*moved)
    assert {n: s["status"] for n, s in newest_summary(folder)["nodes"].items()}["Transform"] == "cached", done.stdout
    assert spans_in(folder) == sorted([*first, (15709, 0), (15707, 1)])


def test_a_span_that_moved_stops_the_run_before_anything_is_trained_or_served(daily, measured_in_forks):
    folder = daily.folder
    (folder / "data" / "2013-01-01.csv").unlink()  # the stored records and statistics are enough
    write_day(folder, 5, times=10, tip=2)
    told = drift.drift_in_a_process(folder / "pipeline.yaml", span="2013-01-05:2013-01-05")
    assert {(f.check, f.subject, f.policy) for f in told.findings} == {
        ("drift", "fare", "stop"),
        ("label", "label tip", "retrain"),
    }
    assert told.previous == "2013-01-04"
    known = kept(folder)

    done = daily()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "DataGate failed: 2013-01-05 has changed. Nothing was trained" in done.stdout
    assert "fare: drifted from" in done.stdout and "Stopped by the data gate." in done.stdout
    assert kept(folder) == known
    facts = newest_summary(folder)
    states = {name: facts["nodes"][name]["status"] for name in ("DataGate", "Trainer", "Pusher")}
    assert states == {"DataGate": "failed", "Trainer": "not run", "Pusher": "not run"}
    assert facts["data_gate"]["stopped"] and facts["data_gate"]["retrain"] and not facts["ok"]
    found = [(f["check"], f["subject"], f["policy"], f["text"]) for f in facts["data_gate"]["findings"]]
    assert found == [(f.check, f.subject, f.policy, f.text) for f in told.findings]
    page = open(facts["report"]).read()
    assert "Stopped: the data has changed" in page and "fare: drifted from" in page
    assert page.count(': shares before and now"><figcaption>') == 3

    # With --gate warn the same data passes, and the drift is still reported.
    done = daily("--gate", "warn", "--to", "DataGate")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn: fare: drifted from" in done.stdout.replace("\n", " ")


def test_a_measurement_that_fails_is_told_by_its_process(daily):
    """It is a new interpreter, as in a schedule."""
    shutil.rmtree(daily.folder / "data")
    with pytest.raises(UserError, match="drift could not be measured: data.source.path: .*matches no file"):
        drift.drift_in_a_process(daily.folder / "pipeline.yaml")
