"""kill -9 of every node in turn, and of the runner: the next run resumes, with the results of an undisturbed run."""

import json
import signal
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests import warm_process
from tests.record_files import read_records

pytestmark = [pytest.mark.e2e, pytest.mark.long]

HERE = Path(__file__).parent
YAML = """\
name: tiny
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 1}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: tip, task: regression}
features: {fare: {type: number, transforms: [z_score]}, zone: category}
model: linear
training: {epochs: 2}
"""
# These nodes are never taken from the cache, because they look up the current state. Ingest then has nothing to do.
LOOKUPS = {"Ingest", "Window", "LastBlessedModel"}
COMPLETE, FAILED, CACHED, LIVE = 3, 4, 5, 2


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Returns the folders of the undisturbed pipeline and of the killed one, and the runs."""
    folders = [tmp_path_factory.mktemp(name) for name in ("undisturbed", "killed")]
    for folder in folders:
        (folder / "pipeline.yaml").write_text(YAML)
        (folder / "data").mkdir()
        rows = [f"{i},{i % 7},z{i % 4},{i % 3}" for i in range(120)]
        (folder / "data" / "2013-01-01.csv").write_text("id,fare,zone,tip\n" + "\n".join(rows) + "\n")
    outcome = folders[1] / "outcome.json"
    pipelines = [folder / "pipeline.yaml" for folder in folders]
    done = warm_process.run([sys.executable, HERE / "kills.py", *pipelines, outcome], timeout=900)
    assert outcome.exists(), done.stdout + done.stderr
    return (*folders, json.loads(outcome.read_text()))


def query(folder, sql):
    """Returns rows of the metadata store, read with sqlite3."""
    with sqlite3.connect(folder / "runs" / "tiny" / "metadata.sqlite") as database:
        return database.execute(sql).fetchall()


def recorded(folder):
    """Returns (node, output, state) of every recorded artifact, sorted."""
    rows = query(folder, "SELECT uri, state FROM Artifact")
    return sorted((*Path(uri).relative_to(folder / "runs" / "tiny").parts[:2], state) for uri, state in rows)


def test_each_node_was_killed_and_each_run_took_up_the_work(tiny):
    _, _, runs = tiny
    assert set(runs[0]["nodes"].values()) == {"ok"}
    assert set(runs[-1]["nodes"].values()) <= {"ok", "cached"}
    order = list(runs[0]["nodes"])
    assert [run["killed"] for run in runs[1:-1] if run["how"] == "half written"] == order
    finished = set()
    for run in runs[1:-1]:
        if run["how"] == "with its runner":
            assert run["nodes"] == -signal.SIGKILL
            continue
        assert run["nodes"][run["killed"]] == "failed", run
        repeated = {node for node in finished - LOOKUPS if run["nodes"][node] not in ("cached", "not run")}
        assert not repeated, run
        finished |= {node for node, status in run["nodes"].items() if status in ("ok", "cached")}


def test_nothing_is_left_open_or_recorded_twice(tiny):
    undisturbed, killed, _ = tiny
    assert recorded(killed) == recorded(undisturbed)
    completed = """SELECT c.name FROM Execution e JOIN Association a ON a.execution_id = e.id
                   JOIN Context c ON c.id = a.context_id JOIN Type t ON t.id = c.type_id
                   WHERE t.name = 'node' AND e.last_known_state = 3"""
    nodes = [name.partition(".")[2] for (name,) in query(killed, completed)]
    assert sorted(node for node in nodes if node not in LOOKUPS) == sorted(set(nodes) - LOOKUPS)
    assert {state for (state,) in query(killed, "SELECT last_known_state FROM Execution")} == {COMPLETE, FAILED, CACHED}


def test_what_can_be_read_is_what_is_recorded(tiny):
    _, killed, _ = tiny
    root = killed / "runs" / "tiny"
    live = {Path(uri) for uri, state in query(killed, "SELECT uri, state FROM Artifact") if state == LIVE}
    assert all(path.is_dir() for path in live)
    files = [path for path in root.glob("[A-Z]*/[!.]*/**/*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if not any(path.is_relative_to(uri) for uri in live)] == []
    [version] = (killed / "serving").glob("[0-9]*")
    assert {path.name for path in (killed / "serving").iterdir()} == {
        version.name,
        "current",
        ".lock",
        ".fullpass-models",
    }


def rows(folder):
    """Returns the recorded numbers of rows by node and output, and the number of records in the files of each split."""
    sql = """SELECT a.uri, json_extract(p.string_value, '$.read'), json_extract(p.string_value, '$.written')
             FROM ArtifactProperty p JOIN Artifact a ON a.id = p.artifact_id WHERE p.name = 'counts' AND a.state = 2"""
    root = folder / "runs" / "tiny"
    said = sorted((*Path(uri).relative_to(root).parts[:2], read, written) for uri, read, written in query(folder, sql))
    records = Counter()
    for output in ("Ingest/examples", "Transform/transformed_examples"):
        for file in root.glob(f"{output}/*/**/Split-*/*"):
            records[output, file.parent.name] += sum(1 for _ in read_records(file))
    return said, records


def test_no_row_is_lost_and_none_is_there_twice(tiny):
    undisturbed, killed, _ = tiny
    said, records = rows(killed)
    assert (said, records) == rows(undisturbed)
    assert [read for node, _, read, _ in said if node == "Ingest"] == [120]
    for output in ("Ingest/examples", "Transform/transformed_examples"):
        assert sum(count for (of, _), count in records.items() if of == output) == 120


def weights(folder):
    import tensorflow as tf

    [version] = (folder / "serving").glob("[0-9]*")
    variables = str(version / "variables" / "variables")
    return {name: tf.train.load_variable(variables, name) for name, _ in tf.train.list_variables(variables)}


def test_the_model_is_that_of_an_undisturbed_run(tiny):
    undisturbed, killed, _ = tiny
    expected, found = weights(undisturbed), weights(killed)
    assert expected.keys() == found.keys() and len(expected) > 3
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
