"""Nights in a row: ids that stay, weights that go on, a model that is refused and one that a person lets through."""

import json
import random

import pytest

from tests.e2e.conftest import run_command

pytestmark = pytest.mark.e2e

YAML = """\
name: nightly
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 2}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: good, task: binary}
features:
  x: number
  zone: {type: category, encoding: {embedding: 4}}
stable_ids: true
model: {kind: mlp, hidden: [16]}
training: {epochs: 4, learning_rate: 0.02, warm_start: blessed}
evaluation:
  metrics: [auc]
  slices: [[zone]]
  thresholds:
    auc:
      not_worse_than: blessed
      tolerance: 0.05
      slices: {not_worse_than: blessed, tolerance: 0.3, min_examples: 50}
      newest_span: {min: 0.8}
"""


def write_day(folder, day, zones, *, shuffled=False):
    """Writes 1,500 rows: good is whether x exceeds what is usual in the zone; or, shuffled, nothing at all."""
    draw = random.Random(day)
    rows = []
    for i in range(1500):
        x, zone = draw.gauss(0, 1), draw.choice(zones)
        rows.append([f"{day}-{i}", f"{x:.4f}", zone, int(x > (ord(zone) % 3) - 1)])
    if shuffled:
        labels = [row[3] for row in rows]
        draw.shuffle(labels)
        rows = [[*row[:3], label] for row, label in zip(rows, labels, strict=True)]
    (folder / "data").mkdir(exist_ok=True)
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "data" / f"2026-03-{day:02d}.csv").write_text(f"id,x,zone,good\n{lines}")


@pytest.fixture(scope="module")
def nightly(tmp_path_factory):
    """Returns `nightly(day)`: runs the window up to a day, and returns how it ended and its summary."""
    folder = tmp_path_factory.mktemp("nightly")
    (folder / "pipeline.yaml").write_text(YAML)
    write_day(folder, 1, "abc")
    write_day(folder, 2, "abbccc")
    write_day(folder, 3, "bccdddd")
    write_day(folder, 4, "bcd", shuffled=True)

    def run(day):
        done = run_command("fullpass", "run", folder / "pipeline.yaml", "--span", f"2026-03-{day:02d}")
        logs = folder / "runs" / "nightly" / "logs"
        return done, json.loads((max(logs.iterdir()) / "summary.json").read_text())

    run.folder = folder
    return run


def served(folder):
    return max((f for f in (folder / "serving").iterdir() if f.name.isdigit()), key=lambda f: int(f.name))


def zones(export):
    return (export / "assets" / "vocabulary_zone").read_text().split()


def embedding(export):
    import tensorflow as tf

    listed = json.loads((export / "assets.extra" / "weights.json").read_text())["weights"]
    [place] = [w["variable"] for w in listed if w["name"] == "embedding of zone_xf/embeddings"]
    reader = tf.train.load_checkpoint(str(export / "variables" / "variables"))
    return reader.get_tensor(f"weights/{place}/.ATTRIBUTES/VARIABLE_VALUE")


def test_a_chain_of_models(nightly):
    folder = nightly.folder
    done, summary = nightly(2)
    assert done.returncode == 0, done.stdout + done.stderr
    first = served(folder)
    assert zones(first) == ["c", "b", "a"], "by frequency, as nothing came before"
    assert summary["training"]["warm_start"]["from"] is None

    done, summary = nightly(3)
    assert done.returncode == 0, done.stdout + done.stderr
    second = served(folder)
    # The window is days 2 and 3: a was in day 2; d is new.
    assert zones(second) == ["c", "b", "a", "d"] and embedding(second).shape == (6, 4)
    warm = summary["training"]["warm_start"]
    assert warm["anew"] == 0 and "5 of 6 rows are known" in {w["why"] for w in warm["weights"]}, warm
    assert summary["baseline"]["auc"] > 0.9 and summary["newest_span"]["auc"]["baseline"] > 0.8
    assert "weights taken over" in done.stdout and "auc, newest span" in done.stdout, done.stdout
    assert "auc, worst of" in done.stdout, "every zone was compared with the last blessed model"

    done, summary = nightly(3)
    repeated = {name for name, node in summary["nodes"].items() if node["status"] != "cached"}
    assert done.returncode == 0 and repeated <= {"Ingest", "LastBlessedModel", "Window"}, "nothing is learned twice"

    done, summary = nightly(4)
    assert done.returncode == 3, done.stdout + done.stderr
    assert served(folder) == second, "the served model stays"
    [why] = [reason for reason in summary["reasons"] if "newest span" in reason]
    assert "evaluation.thresholds.auc.newest_span.min" in why
    refused = summary["model"]
    assert "The model is kept in" in done.stdout and (folder / refused / "Format-Serving" / "saved_model.pb").exists()


def test_a_person_may_bless_what_was_refused_and_says_who_and_why(nightly):
    folder = nightly.folder
    before = served(folder)
    asked = run_command("fullpass", "bless", folder / "pipeline.yaml")
    assert asked.returncode != 0 and served(folder) == before
    assert "was not blessed" in asked.stderr and "newest_span.min" in asked.stderr and "--force" in asked.stderr
    asked = run_command("fullpass", "bless", folder / "pipeline.yaml", "--force")
    assert asked.returncode != 0 and "--why is empty" in asked.stderr and served(folder) == before

    done = run_command("fullpass", "bless", folder / "pipeline.yaml", "--force", "--why", "labels are late today")
    assert done.returncode == 0, done.stdout + done.stderr
    version = served(folder)
    assert int(version.name) > int(before.name) and str(version) in done.stdout
    said = json.loads((version / "assets.extra" / "fullpass.json").read_text())["lineage"]["blessing"]
    assert "newest_span.min" in said["refused_for"]
    assert said["why"] == "labels are late today" and "@" in said["by"] and said["at"].startswith("20")
    assert run_command("fullpass", "bless", folder / "pipeline.yaml").returncode != 0, "there is none to bless any more"

    write_day(folder, 5, "bcd")
    done, summary = nightly(5)
    origin = json.loads((version / "assets.extra" / "origin.json").read_text())["model"]
    assert summary["training"]["warm_start"]["from"] == f"{origin}/Format-Serving", "the next model follows it"
