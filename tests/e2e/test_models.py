"""Two models of one pipeline, as their owner looks at them: lineage, versions, rollback and forward again, gc."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.lineage.tell import tell

pytestmark = pytest.mark.e2e

YAML = """\
# The first, as it was.
name: tiny
data:
  source: {format: csv, path: "data/{YYYY}-{MM}-{DD}.csv"}
  window: {spans: 1}
  split: {method: hash, column: id, ratios: {train: 8, eval: 2}}
label: {name: tip, task: regression}
features: {fare: {type: number, transforms: [z_score]}, zone: category}
model: linear
training: {epochs: 1}
input: {cache: disk}
evaluation: {thresholds: {rmse: {max: 100}}}
"""
ROWS = 120


class Owner:
    """Someone with a folder, a YAML in it and the command line."""

    def __init__(self, folder: Path, command):
        self.folder, self.command = folder, command
        (folder / "data").mkdir()
        self.config.write_text(YAML)

    @property
    def config(self) -> Path:
        return self.folder / "pipeline.yaml"

    @property
    def serving(self) -> Path:
        return self.folder / "serving"

    def add_day(self, day: int) -> None:
        rows = [f"{day}-{i},{i % 7},z{i % 4},{i % 3}" for i in range(ROWS)]
        (self.folder / "data" / f"2013-01-{day:02d}.csv").write_text("id,fare,zone,tip\n" + "\n".join(rows) + "\n")

    def __call__(self, *words, code: int = 0) -> str:
        done = self.command("fullpass", *words, cwd=self.folder, timeout=550)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def say(self, *words):
        return json.loads(self(*words, "--json"))

    def lineage(self, model) -> dict:
        """Returns what `fullpass lineage --json` prints, without a process of its own."""
        told = tell(str(model), self.config)
        return {"source": told.source, **told.lineage}


@pytest.fixture(scope="module")
def owner(fullpass, tmp_path_factory) -> Owner:
    """Has run the pipeline on a day, and on the next one with other settings."""
    owner = Owner(tmp_path_factory.mktemp("owner"), fullpass)
    owner.add_day(1)
    owner("run", "pipeline.yaml")
    owner.add_day(2)
    owner.config.write_text(YAML.replace("The first", "The second").replace("epochs: 1", "epochs: 2"))
    owner("run", "pipeline.yaml")
    return owner


def facts_of(version: Path) -> dict:
    return json.loads((version / "assets.extra" / "fullpass.json").read_text())["lineage"]


def test_the_metadata_and_the_model_tell_the_same_of_every_version(owner):
    first, second = sorted(path for path in owner.serving.iterdir() if path.name.isdigit())
    for version, day, epochs in ((first, 1, 1), (second, 2, 2)):
        told = owner.lineage(version.name)
        assert told.pop("source").endswith("metadata.sqlite")
        assert told == facts_of(version)
        assert f"epochs: {epochs}" in told["config"]["yaml"]
        [span] = told["spans"]
        assert (span["span"], span["rows_read"], sum(span["rows"].values())) == (f"2013-01-{day:02d}", ROWS, ROWS)
    assert facts_of(first)["config"]["hash"] != facts_of(second)["config"]["hash"]
    assert owner.say("lineage") == owner.lineage("latest")
    assert owner.lineage("latest")["config"]["yaml"] == owner.config.read_text()


def test_the_lineage_is_what_stands_elsewhere(owner):
    told = owner.lineage("latest")
    root = owner.folder / "runs" / "tiny"
    summary = json.loads((max((root / "logs").iterdir()) / "summary.json").read_text())
    assert (told["run"], told["metrics"]) == (summary["run_id"], summary["metrics"])
    assert told["baseline"]["metrics"] == summary["baseline"] and told["baseline"]["model"] != told["model"]
    assert told["blessing"] == {"blessed": True, "by": "Evaluator", "reasons": []}
    assert told["gates"]["Parity"]["rows"] == told["examples_evaluated"] == told["spans"][0]["rows"]["eval"]
    with sqlite3.connect(root / "metadata.sqlite") as database:
        sql = """SELECT f.string_value FROM ArtifactProperty f JOIN ArtifactProperty s USING (artifact_id)
                 WHERE f.name = 'fingerprint' AND s.name = 'label' AND s.string_value = '2013-01-02'"""
        assert database.execute(sql).fetchall() == [(told["spans"][0]["fingerprint"],)]
    assert (told["gates"]["DataGate"]["span"], told["gates"]["DataGate"]["stopped"]) == ("2013-01-02", 0)
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
    assert "2013-01-02" in tree and "blessed by Evaluator" in tree and alone["config"]["hash"] in tree


def test_an_export_in_the_root_is_found_in_the_metadata(owner):
    model = owner.lineage("latest")["model"]
    assert owner.lineage(model) == owner.lineage(f"{model}/Format-Serving")
    assert owner.lineage(model)["model"] == model


WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
from pipeline.cli import main
main()
"""


@pytest.mark.parametrize(
    "words", [("lineage",), ("models",), ("gc", "--dry-run"), ("schedule", "list", "scheduled.yaml")]
)
def test_what_only_tells_does_without_tensorflow_and_so_answers_at_once(owner, words):
    (owner.folder / "scheduled.yaml").write_text(owner.config.read_text() + 'schedule: {cron: "0 3 * * *"}\n')
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, *words]
    done = subprocess.run(command, cwd=owner.folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == owner(*words)


def test_back_and_forward_again_and_what_is_served_is_said(owner):
    (second, first) = owner.say("models")
    assert (second["state"], first["state"]) == ("served", "kept")
    assert (second["spans"], second["rows"]) == ({"first": "2013-01-02", "last": "2013-01-02", "count": 1}, ROWS)
    assert (second["blessed_by"], second["code"].split(",")[0]) == (
        "Evaluator",
        facts_of(owner.serving / "current")["code"]["fullpass"],
    )
    assert str(first["version"]) in owner("rollback")
    assert [version["state"] for version in owner.say("models")] == ["put aside", "served"]
    assert owner.lineage("latest")["spans"][0]["span"] == "2013-01-01"
    owner("rollback", "--to", second["version"])
    assert [version["state"] for version in owner.say("models")] == ["served", "kept"]
    shown = owner("models")
    assert str(first["version"]) in shown and second["config_hash"] in shown.replace("\n", "")


def test_gc_keeps_what_the_pushed_models_and_the_window_need(owner):
    root = owner.folder / "runs" / "tiny"
    models = owner.say("models")
    lineages = [owner.lineage(version["version"]) for version in models]
    caches = {path.name for path in root.glob("input_cache/train-*")}
    before = {path for path in owner.folder.rglob("*") if path.is_file()}
    said = owner.say("gc", "--keep-runs", "1", "--keep-days", "0", "--dry-run")
    assert before == {path for path in owner.folder.rglob("*") if path.is_file()}
    freed = owner.say("gc", "--keep-runs", "1", "--keep-days", "0")
    assert freed == said | {"dry_run": False}
    assert freed["kept"] == {"runs": 1, "models": 2}
    gone = before - {path for path in owner.folder.rglob("*") if path.is_file()}
    assert {str(path.relative_to(root)).split("/")[0] for path in gone} >= {"Ingest", "Transform", "logs"}
    assert not any(path.is_relative_to(owner.serving) for path in gone)
    # The Trainer removed that of the first run when it wrote its own; this one is of the window.
    assert len(caches) == 1 and {path.name for path in root.glob("input_cache/train-*")} == caches
    assert [owner.lineage(version["version"]) for version in models] == lineages
    assert owner.say("models") == models
    assert "Nothing to free" in owner("gc", "--keep-runs", "1", "--keep-days", "0")
    out = owner("run", "pipeline.yaml")
    assert "Nothing new; blessed before" in out
