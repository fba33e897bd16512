"""A person pushes what the Evaluator refused: real runs in small, a real metadata file, the real Pusher."""

import getpass
import json
import shutil
import socket
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.components.push.push import OWNER, served_version, served_versions
from fullpass.pipeline.api.run import Run
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.registry.bless import bless
from fullpass.pipeline.registry.find_lineage import find_lineage
from fullpass.pipeline.root import locks
from tests.pipeline.registry import bless_nodes as nodes

pytestmark = pytest.mark.integration
RUN_FIRST = True
YAML = f"""\
name: {nodes.NAME}
root: runs
data: {{source: {{format: csv, path: trips.csv}}}}
label: {{name: good, task: binary}}
features: {{fare: number}}
evaluation: {{thresholds: {{auc: {{min: 0.8}}}}}}
push: {{to: serving, keep: 2}}
"""


class Owner:
    """Someone with a folder, and a pipeline in it that was run."""

    def __init__(self, folder: Path):
        self.folder, self.root, self.target = folder, folder / "runs" / nodes.NAME, folder / "serving"
        self.loaded = load(folder / "pipeline.yaml")

    def run(self, auc: float, least: float = 0.8) -> None:
        nodes.run(self.root, nodes.pipeline(self.root, self.target, auc, least))

    def bless(self, model=None, *, force=True, why="labels are late"):
        return bless(self.loaded, self.root, model=model, force=force, why=why)

    def models(self) -> dict[float, str]:
        """Returns AUC -> number of the model."""
        found = self.root.glob("Make/model/*/Format-Serving/saved_model.pb")
        return {float(path.read_text().split()[-1]): path.parents[1].name for path in found}

    def state(self) -> tuple[list[str], list[Path]]:
        with sqlite3.connect(self.root / "metadata.sqlite") as database:
            return sorted(database.iterdump()), sorted(self.target.rglob("*"))

    def served(self) -> Path:
        return self.target / str(served_version(self.target))


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory) -> Owner:
    """One model that was blessed, and three after it that were refused."""
    folder = tmp_path_factory.mktemp("bless")
    (folder / "pipeline.yaml").write_text(YAML)
    owner = Owner(folder)
    for auc in (0.9, 0.5, 0.6, 0.7):
        owner.run(auc)
    return owner


@pytest.fixture
def owner(four_runs: Owner, tmp_path: Path) -> Owner:
    """A copy of it all, with addresses of its own."""
    shutil.copytree(four_runs.folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    copied = Owner(tmp_path)
    nodes.move_addresses(copied.root / "metadata.sqlite", four_runs.folder, tmp_path)
    return copied


def test_without_force_the_reasons_are_told_and_nothing_changes(owner):
    before = owner.state()
    with pytest.raises(
        UserError, match=r"auc is 0\.7000, below the minimum 0\.8 \(evaluation\.thresholds\.auc\.min\)"
    ) as raised:
        owner.bless(force=False)
    assert f"Make/model/{owner.models()[0.7]} was not blessed" in str(raised.value) and "--force" in str(raised.value)
    assert owner.state() == before


def test_the_command_says_only_the_reasons(owner):
    (owner.folder / "trips.csv").write_text("fare,good\n1,0\n")
    command = [Path(sys.executable).parent / "fullpass", "bless"]
    said = subprocess.run(command, cwd=owner.folder, capture_output=True, text=True, check=False)
    assert (
        said.stderr.startswith(f"The model in {owner.root}/Make/model/{owner.models()[0.7]} was not blessed")
        and not said.stdout
    )


def test_a_blessing_needs_a_reason_and_a_free_root(owner):
    before = owner.state()
    with pytest.raises(UserError, match="--why is empty"):
        owner.bless(why="  ")
    with locks.run_lock(owner.root), pytest.raises(UserError, match="held by another: a run"):
        owner.bless()
    assert owner.state() == before


def test_a_model_that_is_worse_on_live_rows_does_not_take_the_place_of_the_served_one(owner):
    before, asked = owner.state(), []

    def judge(export):
        asked.append(export)
        return ["auc is 0.6, the served model has 0.8"]

    with pytest.raises(UserError, match=r"does not take the place of the served one:\nauc is 0\.6.*\nTo push it"):
        bless(owner.loaded, owner.root, model=None, force=True, why="late", judge=judge)
    assert asked == [f"{owner.root}/Make/model/{owner.models()[0.7]}/Format-Serving"] and owner.state() == before


def test_the_command_and_python_ask_the_watch_for_live_rows(owner):
    (owner.folder / "trips.csv").write_text("fare,good\n1,0\n")
    watched = """
serving_log: {source: {format: jsonl, path: "log/*"}}
watch: {live: {auc: {not_worse_than: served}}}
"""
    (owner.folder / "pipeline.yaml").write_text(YAML + watched)
    command = [Path(sys.executable).parent / "fullpass", "bless", "--force", "--why", "late"]
    said = subprocess.run(command, cwd=owner.folder, capture_output=True, text=True, check=False)
    reason = "the YAML that the served model was trained by was not recorded"
    assert said.returncode == 1 and reason in said.stderr
    before, model = owner.state(), f"{owner.root}/Make/model/{owner.models()[0.7]}"
    loaded = load(owner.folder / "pipeline.yaml")
    run = Run.of(loaded, RunFacts(run_id="1", ok=True, model=model), owner.root / "logs" / "1")
    with pytest.raises(UserError, match=reason):
        run.bless(why="late")
    assert owner.state() == before


def test_the_model_is_pushed_with_who_when_why_and_the_reasons(owner):
    first = owner.served()
    said = owner.bless()
    served = owner.served()
    assert int(served.name) > int(first.name) and (served / "saved_model.pb").read_text() == "model of 0.7"
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    assert said == f"Blessed by {who} and pushed to {served}"
    in_model = json.loads((served / "assets.extra" / "fullpass.json").read_text())["lineage"]
    uri = f"{owner.root}/Make/model/{owner.models()[0.7]}"
    recorded = find_lineage(owner.root / "metadata.sqlite", uri)
    assert recorded["blessing"] == in_model["blessing"]
    blessing = in_model["blessing"]
    assert (blessing["blessed"], blessing["by"], blessing["why"]) == (True, who, "labels are late")
    assert "auc is 0.7000, below the minimum 0.8" in blessing["refused_for"]
    assert datetime.fromisoformat(blessing["at"]).tzinfo is not None
    assert in_model["metrics"] == {"auc": 0.7}


def test_the_verdict_of_the_evaluator_stays_recorded(owner):
    owner.bless()
    query = """SELECT v.int_value FROM Artifact a JOIN Type t ON t.id = a.type_id JOIN ArtifactProperty v ON
               v.artifact_id = a.id AND v.name = 'blessed' JOIN ArtifactProperty m ON m.artifact_id = a.id
               AND m.name = 'current_model' WHERE t.name = 'ModelBlessing' AND m.string_value LIKE ? ORDER BY a.id"""
    with sqlite3.connect(owner.root / "metadata.sqlite") as database:
        blessed = database.execute(query, [f"%/Make/model/{owner.models()[0.7]}"]).fetchall()
    assert blessed == [(0,), (1,)]


def test_an_earlier_one_can_be_named_and_none_is_blessed_twice(owner):
    models = owner.models()
    owner.bless(models[0.5])
    assert (owner.served() / "saved_model.pb").read_text() == "model of 0.5"
    with pytest.raises(UserError, match=f"Model {models[0.5]} was blessed and pushed already"):
        owner.bless(models[0.5])
    with pytest.raises(UserError, match=f"Model {models[0.9]} was blessed and pushed already"):
        owner.bless(models[0.9])
    with pytest.raises(
        UserError, match=f"no model 4711 was evaluated and refused. Refused: {models[0.7]}, {models[0.6]}"
    ):
        owner.bless("4711")
    for auc in (0.7, 0.6):
        owner.bless()
        assert (owner.served() / "saved_model.pb").read_text() == f"model of {auc}"
    assert len(served_versions(owner.target)) == 2, "push.keep"
    with pytest.raises(UserError, match="no model was evaluated and refused. Refused: none"):
        owner.bless()


@pytest.fixture
def judged_anew(tmp_path: Path) -> Owner:
    """A model that was blessed and pushed; then the threshold rose, and the same model was refused."""
    (tmp_path / "pipeline.yaml").write_text(YAML)
    owner = Owner(tmp_path)
    owner.run(0.9)
    owner.run(0.9, least=0.95)
    return owner


def test_the_last_verdict_on_a_model_counts(judged_anew):
    owner, first = judged_anew, judged_anew.served()
    with pytest.raises(UserError, match=f"Make/model/{owner.models()[0.9]} was not blessed"):
        owner.bless(force=False)
    assert owner.bless().endswith(f"and served from {first}") and owner.served() == first
    with pytest.raises(UserError, match=f"Model {owner.models()[0.9]} was blessed and pushed already"):
        owner.bless(owner.models()[0.9])
    owner.run(0.9, least=0.95)  # the cached verdict of the Evaluator
    assert owner.bless().endswith(f"and served from {first}")


def test_a_blessed_model_that_is_not_served_is_said_to_be_so(judged_anew):
    owner, first = judged_anew, judged_anew.served()
    owner.run(0.99)
    second = owner.served()
    said = owner.bless()
    assert owner.served() == second != first and f"version {first.name} is not served, as a newer one was" in said
    assert said.startswith("Blessed by ") and f"rollback {owner.target} --to {first.name}" in said


def test_a_folder_of_another_pipeline_is_refused_before_a_blessing_is_recorded(owner):
    (owner.target / OWNER).write_text("pipeline: other\n")
    before = owner.state()
    with pytest.raises(UserError, match="models of other"):
        owner.bless()
    assert owner.state() == before


def test_a_model_whose_files_are_gone_cannot_be_blessed(owner):
    before = owner.state()
    shutil.rmtree(owner.root / "Make" / "model" / owner.models()[0.7])
    with pytest.raises(UserError, match="are gone. Train it again"):
        owner.bless()
    assert owner.state() == before


def test_where_nothing_was_run_there_is_nothing_to_bless(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(YAML)
    with pytest.raises(UserError, match="no run so far"):
        Owner(tmp_path).bless()
