"""Days that arrive one after the other, as a user runs them."""

import json
import sqlite3

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
"""


def write_day(folder, day, rows=200):
    lines = [f"{day}-{i},{i % 7 + day},z{(i + day) % 4},{i % 3}" for i in range(rows)]
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / f"2013-01-{day:02d}.csv").write_text("id,fare,zone,tip\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def daily(fullpass, tmp_path_factory):
    """Returns `daily(*options)`: runs the pipeline up to Transform and returns what it did."""
    folder = tmp_path_factory.mktemp("daily")
    (folder / "pipeline.yaml").write_text(YAML)
    for day in (1, 2, 4):
        write_day(folder, day)

    def run(*options):
        return fullpass("fullpass", "run", folder / "pipeline.yaml", "--to", "Transform", *options)

    run.folder = folder
    return run


def spans_in(folder):
    """Returns (span, version) of everything that Ingest ever made, by a reader of its own of the metadata."""
    with sqlite3.connect(folder / "runs" / "daily" / "metadata.sqlite") as database:
        rows = database.execute(
            "SELECT p.int_value, v.int_value FROM ArtifactProperty p JOIN ArtifactProperty v USING (artifact_id) "
            "JOIN Artifact a ON a.id = p.artifact_id WHERE p.name = 'span' AND v.name = 'version' "
            "AND a.uri LIKE '%/Ingest/%' AND a.state = 2"
        )
        return sorted(rows)


def newest_summary(folder):
    logs = folder / "runs" / "daily" / "logs"
    return json.loads((max(logs.iterdir()) / "summary.json").read_text())


def test_a_window_moves_by_its_new_span_and_an_old_one_that_changed(daily):
    folder = daily.folder
    done = daily("--span", "2013-01-05")
    assert done.returncode == 4 and "2013-01-01 to 2013-01-02, 2013-01-04" in done.stderr, done.stdout + done.stderr
    assert not (folder / "runs" / "daily" / "metadata.sqlite").exists()

    done = daily("--span", "2013-01-02")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 spans, 2013-01-01 to 2013-01-02 (span 15707)" in done.stdout
    first = [(15706, 0), (15707, 0)]
    assert spans_in(folder) == first and newest_summary(folder)["rows_read"] == 400

    done = daily("--span", "2013-01-02:latest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of the window missing: 2013-01-03" in done.stdout
    assert "1 span taken from the cache" in done.stdout and "1 analysed, not analysed before: 2013-01-04" in done.stdout
    assert newest_summary(folder)["analysis"] == {
        "hit": ["2013-01-02"],
        "missed": {"2013-01-04": "not analysed before"},
    }
    assert spans_in(folder) == [*first, (15709, 0)]

    write_day(folder, 2, rows=300)
    done = daily("--span", "2013-01-02:latest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert spans_in(folder) == sorted([*first, (15709, 0), (15707, 1)])
    summary = newest_summary(folder)
    assert summary["rows_read"] == 500 == sum(summary["rows"].values())
    assert {name: node["status"] for name, node in summary["nodes"].items()}["Transform"] == "ok"

    done = daily("--span", "2013-01-02:latest")
    assert {n: s["status"] for n, s in newest_summary(folder)["nodes"].items()}["Transform"] == "cached", done.stdout
    assert spans_in(folder) == sorted([*first, (15709, 0), (15707, 1)])
