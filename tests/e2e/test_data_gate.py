"""A span that has moved, as a user meets it: the run stops, says why, and what is served stays."""

import json
import shutil

import pytest

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


def write_day(folder, day, *, times=1, tip=3):
    lines = [f"{day}-{i},{times * (i % 7 + 1)},z{i % 4},{i % tip}" for i in range(400)]
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / f"2013-01-{day:02d}.csv").write_text("id,fare,zone,tip\n" + "\n".join(lines) + "\n")


def newest_summary(folder):
    return json.loads((max((folder / "runs" / "daily" / "logs").iterdir()) / "summary.json").read_text())


def served(folder):
    return {path: path.read_bytes() for path in sorted((folder / "serving").rglob("*")) if path.is_file()}


def test_a_span_that_moved_stops_the_run_and_leaves_the_served_model(fullpass, tmp_path):
    (tmp_path / "pipeline.yaml").write_text(YAML)
    for day in (1, 2):
        write_day(tmp_path, day)

    done = fullpass("fullpass", "run", tmp_path / "pipeline.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2013-01-02 is as 2013-01-01" in done.stdout
    facts = newest_summary(tmp_path)
    assert facts["data_gate"] == {
        "span": "2013-01-02",
        "compared_with": ["2013-01-01"],
        "stopped": False,
        "retrain": False,
        "findings": [],
    }
    assert "2013-01-02, 400 rows, compared with 2013-01-01." in open(facts["report"]).read()
    before = served(tmp_path)
    assert before

    write_day(tmp_path, 3, times=10, tip=2)
    done = fullpass("fullpass", "run", tmp_path / "pipeline.yaml")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "DataGate failed: 2013-01-03 has changed, and nothing was trained" in done.stdout
    assert "fare: moved against" in done.stdout and "Stopped by the data gate." in done.stdout
    assert served(tmp_path) == before
    facts = newest_summary(tmp_path)
    assert facts["nodes"]["DataGate"]["status"] == "failed" and facts["nodes"]["Trainer"]["status"] == "not run"
    assert facts["data_gate"]["stopped"] and facts["data_gate"]["retrain"] and not facts["ok"]
    told = {(f["check"], f["subject"], f["policy"]) for f in facts["data_gate"]["findings"]}
    assert told == {("drift", "fare", "stop"), ("label", "label tip", "retrain")}
    page = open(facts["report"]).read()
    assert "Stopped: the data has changed" in page and "fare: moved against" in page and page.count("<svg") == 3

    # With --gate warn the same data passes, and what moved is told all the same.
    done = fullpass("fullpass", "run", tmp_path / "pipeline.yaml", "--gate", "warn", "--to", "DataGate")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn: fare: moved against" in done.stdout.replace("\n", " ")


def test_drift_is_told_before_a_run_of_what_is_known_of_the_spans_before(fullpass, tmp_path):
    from pipeline.drift import drift_in_a_process
    from preprocessing.errors import UserError

    (tmp_path / "pipeline.yaml").write_text(YAML)
    for day, times in ((1, 1), (2, 1), (3, 10)):
        write_day(tmp_path, day, times=times)
    quiet = drift_in_a_process(tmp_path / "pipeline.yaml", span="2013-01-02")
    assert quiet.findings == () and quiet.previous == "2013-01-01" and quiet.rows == 400
    kept = tmp_path / "runs" / "daily" / "span_statistics"
    assert len(list(kept.iterdir())) == 2
    (tmp_path / "data" / "2013-01-01.csv").unlink()  # no more than what is kept of it is needed
    moved = drift_in_a_process(tmp_path / "pipeline.yaml", span="2013-01-03:2013-01-03")
    assert [(f.check, f.subject, f.policy) for f in moved.findings] == [("drift", "fare", "stop")]
    assert moved.previous == "2013-01-02"

    # A run finds what was read before it, under the same name, and judges the same.
    before = {path.name for path in kept.iterdir()}
    done = fullpass("fullpass", "run", tmp_path / "pipeline.yaml", "--to", "DataGate")
    assert done.returncode == 5, done.stdout + done.stderr
    assert {path.name for path in kept.iterdir()} == before
    assert newest_summary(tmp_path)["data_gate"]["findings"][0]["text"] == moved.findings[0].text

    shutil.rmtree(tmp_path / "data")
    with pytest.raises(UserError, match="drift could not be told: data.source.path: .*matches no file"):
        drift_in_a_process(tmp_path / "pipeline.yaml")
