"""Nightly runs in a row: stable ids, warm starts, lineage, versions, rollback, gc, a rejected and an approved model.

Each test continues where the previous one ended.
"""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Owner

pytestmark = pytest.mark.e2e

YAML = """\
# The first, as it was.
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
input: {cache: disk}
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
ROWS = 1500
LOOKUPS = {"Ingest", "LastBlessedModel", "Window"}
"""Nodes that are never taken from the cache."""


def write_day(folder, day, zones, *, shuffled=False):
    """Writes 1,500 rows. `good` is whether x exceeds the usual value of the zone; if shuffled, `good` is unrelated."""
    draw = random.Random(day)
    rows = []
    for i in range(ROWS):
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
def owner(tmp_path_factory) -> Owner:
    owner = Owner(tmp_path_factory.mktemp("nightly"), "nightly", YAML)
    write_day(owner.folder, 1, "abc")
    write_day(owner.folder, 2, "abbccc")
    write_day(owner.folder, 3, "bccdddd")
    write_day(owner.folder, 4, "bcd", shuffled=True)
    return owner


def night(owner, day, *options):
    """Runs the window that ends with a day; returns the completed process and the summary."""
    return owner.run("run", "pipeline.yaml", "--span", f"2026-03-{day:02d}", *options), owner.summary()


def zones(export):
    return (export / "assets" / "vocabulary_zone").read_text().split()


def embedding(export):
    import tensorflow as tf

    listed = json.loads((export / "assets.extra" / "weights.json").read_text())["weights"]
    [place] = [w["variable"] for w in listed if w["name"] == "embedding of zone_xf/embeddings"]
    reader = tf.train.load_checkpoint(str(export / "variables" / "variables"))
    return reader.get_tensor(f"weights/{place}/.ATTRIBUTES/VARIABLE_VALUE")


def facts_of(version: Path) -> dict:
    return json.loads((version / "assets.extra" / "fullpass.json").read_text())["lineage"]


def test_the_second_model_follows_the_first(owner):
    done, summary = night(owner, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    [first] = owner.versions()
    assert zones(first) == ["c", "b", "a"], "by frequency, as nothing came before"
    assert summary["training"]["warm_start"]["from"] is None

    owner.config.write_text(YAML.replace("The first", "The second").replace("epochs: 4", "epochs: 5"))
    done, summary = night(owner, 3)
    assert done.returncode == 0, done.stdout + done.stderr
    [_, second] = owner.versions()
    # The window is days 2 and 3; `a` occurs in day 2, and `d` is new.
    assert zones(second) == ["c", "b", "a", "d"] and embedding(second).shape == (6, 4)
    warm = summary["training"]["warm_start"]
    assert warm["anew"] == 0 and "5 of 6 rows are in the earlier model" in {w["why"] for w in warm["weights"]}, warm
    assert summary["baseline"]["auc"] > 0.9 and summary["newest_span"]["auc"]["baseline"] > 0.8
    assert "weights reused" in done.stdout and "auc, newest span" in done.stdout, done.stdout
    assert "auc, worst of" in done.stdout, "every zone was compared with the last blessed model"
    assert "2026-03-03, 1,500 rows, compared with 2026-03-02." in Path(summary["report"]).read_text()


def test_the_metadata_and_the_model_tell_the_same_of_every_version(owner):
    first, second = owner.versions()
    for version, days, epochs in ((first, (1, 2), 4), (second, (2, 3), 5)):
        told = owner.lineage(version.name)
        assert told.pop("source").endswith("metadata.sqlite")
        assert told == facts_of(version)
        assert f"epochs: {epochs}" in told["config"]["yaml"]
        spans = [(span["span"], span["rows_read"], sum(span["rows"].values())) for span in told["spans"]]
        assert spans == [(f"2026-03-{day:02d}", ROWS, ROWS) for day in days]
    assert facts_of(first)["config"]["hash"] != facts_of(second)["config"]["hash"]
    assert owner.say("lineage") == owner.lineage("latest")
    assert owner.lineage("latest")["config"]["yaml"] == owner.config.read_text()


def test_the_lineage_is_what_stands_elsewhere(owner):
    told, summary = owner.lineage("latest"), owner.summary()
    assert (told["run"], told["metrics"]) == (summary["run_id"], summary["metrics"])
    assert 0 < told["standard_errors"]["auc"] < 0.5
    assert told["baseline"]["metrics"] == summary["baseline"] and told["baseline"]["model"] != told["model"]
    assert told["blessing"] == {"blessed": True, "by": "Evaluator", "reasons": [], "notes": summary["notes"]}
    evaluated = sum(span["rows"]["eval"] for span in told["spans"])
    assert told["gates"]["Parity"]["rows"] == told["examples_evaluated"] == evaluated
    with sqlite3.connect(owner.root / "metadata.sqlite") as database:
        sql = """SELECT f.string_value FROM ArtifactProperty f JOIN ArtifactProperty s USING (artifact_id)
                 WHERE f.name = 'fingerprint' AND s.name = 'label' AND s.string_value = '2026-03-03'"""
        assert database.execute(sql).fetchall() == [(told["spans"][-1]["fingerprint"],)]
    assert (told["gates"]["DataGate"]["span"], told["gates"]["DataGate"]["stopped"]) == ("2026-03-03", 0)
    assert told["transform_graph"]["digest"] and told["code"]["source"]


def test_a_model_that_left_its_pipeline_tells_it_all_the_same(owner, tmp_path):
    copied = shutil.copytree(owner.serving / "current", tmp_path / "copied")
    known = owner.lineage(copied)
    (copied / "assets.extra" / "origin.json").unlink()
    alone = owner.lineage(copied)
    assert alone.pop("source") == str(copied / "assets.extra" / "fullpass.json")
    assert alone == {name: said for name, said in known.items() if name != "source"}
    tree = owner("lineage", copied)
    assert owner("lineage", copied, "--yaml") == owner.config.read_text()
    assert "2026-03-03" in tree and "blessed by Evaluator" in tree and alone["config"]["hash"] in tree


def test_an_export_in_the_root_is_found_in_the_metadata(owner):
    model = owner.lineage("latest")["model"]
    assert owner.lineage(model) == owner.lineage(f"{model}/Format-Serving")
    assert owner.lineage(model)["model"] == model


WITHOUT_TENSORFLOW = """
import contextlib, io, json, sys
sys.modules["tensorflow"] = None
from fullpass.pipeline.cli import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv[1:], code = words, 0
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    told.append([words, code, printed.getvalue()])
print(json.dumps(told))
"""


def test_what_only_tells_does_without_tensorflow_and_so_answers_at_once(owner):
    (owner.folder / "scheduled.yaml").write_text(owner.config.read_text() + 'schedule: {cron: "0 3 * * *"}\n')
    telling = [["lineage"], ["models"], ["gc", "--dry-run"], ["schedule", "list", "scheduled.yaml"]]
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, json.dumps(telling)]
    done = subprocess.run(command, cwd=owner.folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[words, 0, owner(*words)] for words in telling]


def test_back_and_forward_again_and_what_is_served_is_said(owner):
    (second, first) = owner.say("models")
    assert (second["state"], first["state"]) == ("served", "kept")
    spans = {"first": "2026-03-02", "last": "2026-03-03", "count": 2}
    assert (second["spans"], second["rows"]) == (spans, 2 * ROWS)
    release = facts_of(owner.serving / "current")["code"]["fullpass"]
    assert (second["blessed_by"], second["code"].split(",")[0]) == ("Evaluator", release)
    assert str(first["version"]) in owner("rollback")
    assert [version["state"] for version in owner.say("models")] == ["put aside", "served"]
    assert owner.lineage("latest")["spans"][-1]["span"] == "2026-03-02"
    owner("rollback", "--to", second["version"])
    assert [version["state"] for version in owner.say("models")] == ["served", "kept"]
    shown = owner("models")
    assert str(first["version"]) in shown and second["config_hash"] in shown.replace("\n", "")


def test_gc_keeps_what_the_pushed_models_and_the_window_need(owner):
    models = owner.say("models")
    lineages = [owner.lineage(version["version"]) for version in models]
    before = owner.files()
    said = owner.say("gc", "--keep-runs", "1", "--dry-run")
    assert before == owner.files()
    freed = owner.say("gc", "--keep-runs", "1")
    assert freed == said | {"dry_run": False}
    assert freed["kept"] == {"runs": 2, "models": 2}, "the newest, and that of the model before"
    gone = before - owner.files()
    assert {str(path.relative_to(owner.root)).split("/")[0] for path in gone} >= {"Ingest", "Transform"}
    assert not any(path.is_relative_to(owner.serving) for path in gone)
    assert not list(owner.root.glob("input_cache/*")), "the Trainer's rows on disk end with it"
    assert [owner.lineage(version["version"]) for version in models] == lineages
    assert owner.say("models") == models
    assert "Nothing to free" in owner("gc", "--keep-runs", "1")


def test_a_night_without_anything_new_learns_nothing_again(owner):
    done, summary = night(owner, 3)
    repeated = {name for name, node in summary["nodes"].items() if node["status"] != "cached"}
    assert done.returncode == 0 and repeated <= LOOKUPS and "Nothing new; blessed before" in done.stdout


def test_a_model_that_is_worse_on_the_newest_span_is_refused(owner):
    served = owner.versions()[-1]
    done, summary = night(owner, 4)
    assert done.returncode == 3, done.stdout + done.stderr
    assert owner.versions()[-1] == served, "the served model stays"
    [why] = [reason for reason in summary["reasons"] if "newest span" in reason]
    assert "evaluation.thresholds.auc.newest_span.min" in why
    refused = owner.folder / summary["model"]
    assert "The model is kept in" in done.stdout and (refused / "Format-Serving" / "saved_model.pb").exists()


def test_a_person_may_bless_what_was_refused_and_says_who_and_why(owner):
    before = owner.versions()[-1]
    asked = owner.run("bless", "pipeline.yaml")
    assert asked.returncode != 0 and owner.versions()[-1] == before
    assert "was not blessed" in asked.stderr and "newest_span.min" in asked.stderr and "--force" in asked.stderr
    asked = owner.run("bless", "pipeline.yaml", "--force")
    assert asked.returncode != 0 and "--why is empty" in asked.stderr and owner.versions()[-1] == before

    said = owner("bless", "pipeline.yaml", "--force", "--why", "labels are late today")
    version = owner.versions()[-1]
    assert int(version.name) > int(before.name) and str(version) in said
    blessing = facts_of(version)["blessing"]
    assert "newest_span.min" in blessing["refused_for"]
    assert blessing["why"] == "labels are late today" and "@" in blessing["by"] and blessing["at"].startswith("20")
    assert owner.run("bless", "pipeline.yaml").returncode != 0, "there is none to bless any more"

    write_day(owner.folder, 5, "bcd")
    done, _ = night(owner, 5, "--to", "LastBlessedModel")
    assert done.returncode == 0, done.stdout + done.stderr
    origin = json.loads((version / "assets.extra" / "origin.json").read_text())["model"]
    with sqlite3.connect(owner.root / "metadata.sqlite") as database:
        found = """SELECT uri FROM Event JOIN Artifact ON Artifact.id = artifact_id JOIN Type ON Type.id = type_id
                   WHERE Type.name = 'Model' AND execution_id = (SELECT max(execution_id) FROM Event)"""
        assert database.execute(found).fetchall() == [(origin,)], "the next model follows it"
