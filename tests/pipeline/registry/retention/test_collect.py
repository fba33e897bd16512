"""Real runs of a pipeline in small, a real metadata file, and what a collection leaves of them."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ml_metadata import proto

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.data_gate import summary_entries
from fullpass.components.push.push import rollback, served_version, served_versions
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import OccasionRecord, RunHistory
from fullpass.pipeline.registry.commands import gc
from fullpass.pipeline.registry.retention import records
from fullpass.pipeline.registry.retention.collect import NextRun, collect
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution import metadata_store
from tests import REPOSITORY
from tests.pipeline.registry.bless_nodes import move_addresses, run
from tests.pipeline.registry.retention import nodes

pytestmark = pytest.mark.integration
RUN_FIRST = True
LIMIT_SECONDS = 120


class Project:
    """A root, the folder of pushed models beside it, and what a test wants to know of them."""

    def __init__(self, folder: Path):
        self.root, self.target = folder / "runs", folder / "serving"

    def run(self, span: int, *, blessed: bool = True):
        result = run(self.root, nodes.pipeline(self.root, self.target, span, blessed=blessed))
        return {node.id: str(node.status) for node in result.nodes}

    def collect(self, newest=1, spans=(3, 4), index=None, **options):
        next_run = NextRun(spans, index, before=1)
        return collect(self.root, self.target, newest, next_run, **options)

    def artifacts(self) -> dict[str, str]:
        """Returns node/output/n -> state, n counting the artifacts of an output that there were, from 1."""
        with metadata_store.LockedMetadata(self.root / "metadata.sqlite") as handle:
            found = handle.store.get_artifacts()
        states = {a.uri: proto.Artifact.State.Name(a.state) for a in found}
        return {self.numbered(uri): state for uri, state in states.items()}

    def numbered(self, uri: str) -> str:
        node, output, execution = Path(uri).relative_to(self.root).parts[:3]
        return f"{node}/{output}/{self.order[node].index(execution) + 1}"

    def folders(self) -> set[str]:
        """Returns the folders of outputs that there are, numbered in the same way."""
        return {self.numbered(str(path)) for path in self.root.glob("[A-Z]*/[!.]*/*")}

    def everything(self) -> dict[str, bytes]:
        files = [path for path in [*self.root.rglob("*"), *self.target.rglob("*")] if path.is_file()]
        return {str(p.relative_to(self.root.parent)): p.read_bytes() for p in files if p.name not in IGNORED}

    def dump(self) -> list[str]:
        with sqlite3.connect(self.root / "metadata.sqlite") as database:
            return sorted(line for line in database.iterdump() if "sqlite_sequence" not in line)


IGNORED = {"metadata.sqlite", "metadata.sqlite.lock", ".run.lock"}


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory) -> Project:
    """Four runs, of the spans 1 to 4, each with the span before; the third model is not blessed."""
    project = Project(tmp_path_factory.mktemp("retention"))
    for span in (1, 2, 3, 4):
        project.run(span, blessed=span != 3)
    for number in (1, 2, 3, 4):
        nodes.write(project.root / "analyzer_cache" / "tft-1", f"f{number}.accumulators", "sums")
    nodes.write(project.root / "analyzer_cache" / "tft-1", "uses.json", "{}")
    order = {
        node.name: sorted({path.name for path in node.glob("[!.]*/*")}, key=int) for node in project.root.glob("[A-Z]*")
    }
    Project.order = order
    nodes.write(project.root / "input_cache" / "train-3", "block-000000.bin", "rows that an earlier release kept")
    return project


@pytest.fixture
def project(four_runs: Project, tmp_path: Path) -> Project:
    """A copy of them that may be changed, with addresses of its own."""
    copied = Project(tmp_path)
    for name in ("runs", "serving"):
        shutil.copytree(four_runs.root.parent / name, tmp_path / name, symlinks=True)
    before, after = str(four_runs.root), str(copied.root)
    move_addresses(copied.root / "metadata.sqlite", four_runs.root.parent, tmp_path)
    for file in copied.target.glob("*/assets.extra/origin.json"):
        state_file.write(file, json.loads(file.read_text().replace(before, after)))
    return copied


# By hand, of four runs: the last is kept, and the models of runs 2 and 4 are pushed (two are kept there).
KEPT = {
    *(f"Ingest/examples/{n}" for n in (3, 4)),
    "Transform/transformed_examples/4",
    *(f"Transform/transform_graph/{n}" for n in (2, 4)),
    *(f"Trainer/{output}/{n}" for output in ("model", "model_run") for n in (2, 4)),
    *(f"Evaluator/{output}/{n}" for output in ("blessing", "evaluation") for n in (2, 4)),
    *(f"Pusher/pushed_model/{n}" for n in (2, 4)),
    *(f"Report/report/{n}" for n in (2, 4)),
}
# Model 2 was trained on the spans 1 and 2, and compared with model 1, which was blessed.
ONLY_RECORDED = {
    *("Ingest/examples/1", "Ingest/examples/2", "Transform/transformed_examples/2", "Trainer/model/1"),
    "Evaluator/blessing/1",
}


def test_only_what_a_kept_run_model_or_window_needs_is_kept(project: Project):
    project.collect()
    assert {name for name, state in project.artifacts().items() if state == "LIVE"} == KEPT == project.folders()
    assert {name for name, state in project.artifacts().items() if state != "LIVE"} == ONLY_RECORDED
    assert all(project.artifacts()[name] == "DELETED" for name in ONLY_RECORDED)


def test_caches_of_removed_records_are_removed(project: Project):
    project.collect()
    kept = {"f3.accumulators", "f4.accumulators", "uses.json"}
    assert {path.name for path in project.root.glob("analyzer_cache/*/*")} == kept
    assert not list(project.root.glob("input_cache/*"))
    assert len(list(project.root.glob("logs/*"))) == 2, "of the kept run, and of that of the other pushed model"


def test_examples_of_the_window_are_kept_without_a_run(project: Project):
    project.collect(spans=(1, 4))
    live = {name for name, state in project.artifacts().items() if state == "LIVE"}
    assert "Ingest/examples/1" in live and "Ingest/examples/2" not in live
    assert (project.root / "analyzer_cache" / "tft-1" / "f1.accumulators").exists()


NOW_STATISTICS = "0a0a0a0a"
STATISTICS = [(1, "f1"), (2, "f2"), (3, "f3"), (4, "f4x"), (4, "f4"), (5, "f5x"), (5, "f5")]


def test_statistics_of_spans_that_the_gate_compares_are_kept(project: Project):
    folder = project.root / "span_statistics"
    nodes.write(folder, f"5_{1:016d}_f5_{'0b' * 4}.json.gz", "of an earlier YAML")
    for made, (number, fingerprint) in enumerate(STATISTICS, start=2):
        nodes.write(folder, f"{number}_{made:016d}_{fingerprint}_{NOW_STATISTICS}.json.gz", "of this one")
    nodes.write(folder, f".5_{9:016d}_f5_{NOW_STATISTICS}.json.gz.4711.part", "half of it")
    said = project.collect(dry_run=True)
    assert said == project.collect() and said.counts["span statistics"] == 6
    # The newest span and the one before it, each as it was last; and of span 3, which the last run was trained on.
    kept = {path.name.split("_")[2] for path in folder.iterdir()}
    assert kept == {"f3", "f4", "f5"}


def test_two_versions_of_data_without_spans_are_kept():
    names = [f"0_{time:016d}_f{time}_{NOW_STATISTICS}.json.gz" for time in (1, 2, 3)]
    assert summary_entries.needed(names, {"f3"}, before=30, versions=2) == set(names[1:])
    assert summary_entries.needed([], {"f3"}, before=30, versions=1) == set()


def test_the_span_index_of_deleted_files_is_removed_if_the_source_can_be_read(project: Project):
    for name in ("aaaa.json", "bbbb.json", "cccc.pending"):
        nodes.write(project.root / "span_index", name, "[]")
    assert "span index" not in project.collect(dry_run=True).counts
    assert project.collect(index={"aaaa.json"}, dry_run=True).counts["span index"] == 2
    project.collect(index={"aaaa.json"})
    assert [path.name for path in (project.root / "span_index").iterdir()] == ["aaaa.json"]


SPANS_IN_A_COLUMN = """\
name: toy
data: {source: {format: csv, path: trips.csv}, span: {column: day, unit: day}}
label: {name: tip, task: regression}
features: {fare: number}
"""


def test_a_dry_run_of_the_command_leaves_the_span_index_unchanged(project: Project, tmp_path, capsys):
    (tmp_path / "pipeline.yaml").write_text(SPANS_IN_A_COLUMN)
    (tmp_path / "trips.csv").write_text("day,fare,tip\n2013-01-05,1,2\n")
    nodes.write(project.root / "span_index", "aaaa.json", "[]")
    before = project.everything()
    gc(tmp_path / "pipeline.yaml", keep_runs=1, root=project.root, dry_run=True, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert project.everything() == before and said["counts"]["span index"] == 1
    gc(tmp_path / "pipeline.yaml", keep_runs=1, root=project.root, as_json=True)
    assert json.loads(capsys.readouterr().out) == {**said, "dry_run": False}
    assert list((project.root / "span_index").iterdir()) == []


def test_history_older_than_the_kept_runs_is_removed_except_trainings(project: Project):
    history = RunHistory(project.root)
    long_ago, soon = "2001-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"
    for ended in (long_ago, soon):
        for trained in (True, False):
            name = f"{ended} {trained}"
            history.record(RunFacts(run_id=name, ended=ended, trained=trained, occasion=name, unit="day"))
        history.save_state("scheduler", "{}", ended=[OccasionRecord(ended, "cron", ended, ended, "", "skipped", "")])
    for name, age in (("old.log", 30 * 365 * 86400), ("new.log", 0)):
        nodes.write(project.root / "schedule", name, "printed")
        then = time.time() - age
        os.utime(project.root / "schedule" / name, (then, then))
    said = project.collect(dry_run=True)
    assert said.counts["history"] == 2 and len(history.entries(10)) == 2
    assert project.collect() == said
    assert [entry.ended for entry in history.entries(10)] == [soon]
    known = [history.run_for(f"{ended} {trained}") for ended in (long_ago, soon) for trained in (True, False)]
    assert [run is not None for run in known] == [True, False, True, True]
    assert [path.name for path in (project.root / "schedule").iterdir()] == ["new.log"]
    assert "history" not in project.collect().counts


def test_old_files_of_every_folder_of_the_layout_are_removed(project: Project):
    layout = RootLayout(project.root)
    assert unknown_in(layout) == set()
    files = (".sqlite", ".lock", ".json", ".html")
    folders = [path for path in layout.paths() if path.suffix not in files and path != layout.mark]
    stale = [folder / "old" / "old.log" for folder in folders if folder != layout.schedule]
    stale.append(layout.schedule / "old.log")
    # Nothing else remembers which spans are stopped, and what the answers of a served version were for its eval rows.
    kept = [layout.span_verdicts / "old" / "old.log", layout.watch / "old" / "old.log"]
    for path in stale:
        nodes.write(path.parent, path.name, "left behind")
        for each in (path, path.parent):
            os.utime(each, (0, 0))
    project.collect(index=())
    assert [path for path in stale if path.exists()] == kept
    assert len(stale) == 11 and unknown_in(layout) == set()


def unknown_in(layout: RootLayout) -> set[str]:
    """Returns what lies in a root and is neither named by the layout nor the folder of a node."""
    known = {path.name for path in layout.paths()} | {path.parent.name for path in layout.root.glob("*/.system")}
    return {path.name for path in layout.root.iterdir()} - known


def test_folders_of_a_node_without_records_are_removed(project: Project):
    nodes.write(project.root / "OfNoRecord" / "output" / "7", "file", "left")
    nodes.write(project.root / "OfNoRecord" / ".system" / "executor_execution" / "7", "file", "left")
    project.collect()
    assert not [path for path in (project.root / "OfNoRecord").rglob("*") if path.is_file()]


def test_the_reported_sizes_are_those_of_the_removed_files(project: Project):
    before, recorded = project.everything(), project.dump()
    said = project.collect(dry_run=True)
    assert project.everything() == before and project.dump() == recorded
    assert project.collect() == said
    gone = before.keys() - project.everything().keys()
    assert sum(said.sizes.values()) == sum(len(before[name]) for name in gone)
    assert said.sizes["quarantine"] == 2 * len("bad rows")
    assert said.sizes["Ingest/examples"] == len("rows of 1rows of 2")
    assert said.sizes["analyzer cache"] == 2 * len("sums")


def test_a_second_collection_has_nothing_to_do(project: Project):
    project.collect()
    freed = project.collect()
    assert (freed.sizes, freed.counts) == ({}, {}) and not any(freed.records.values())


def test_the_metadata_is_consistent_and_the_next_runs_reuse_it(project: Project):
    project.run(4)  # Addresses are part of what the cache is asked for, and these are new.
    project.collect()
    with sqlite3.connect(project.root / "metadata.sqlite") as database:
        for table, kind in (("Event", "artifact"), ("Event", "execution"), ("Association", "context")):
            sql = f"SELECT count(*) FROM {table} WHERE {kind}_id NOT IN (SELECT id FROM {kind.capitalize()})"
            assert database.execute(sql).fetchone() == (0,), (table, kind)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again = project.run(4)
    # The lookup now finds this model itself, so it is judged anew, and what depends on that.
    judged = {"Window", "LastBlessedModel", "Evaluator", "Pusher", "Report"}
    assert {node for node, status in again.items() if status != "cached"} == judged
    five = project.run(5)
    assert set(five.values()) == {"ok"}
    graph = max(project.root.glob("Transform/transform_graph/*"), key=lambda path: int(path.name)) / "graph"
    assert graph.read_text() == "rows of 4 rows of 5"


def test_a_removed_span_is_made_again_on_request(project: Project):
    project.collect()
    assert set(project.run(1).values()) == {"ok"}


def test_a_rolled_back_model_can_be_served_after_a_collection(project: Project):
    before, newest = served_versions(project.target)
    assert rollback(project.target) == before
    project.collect()
    assert served_version(project.target) == before
    assert {"Trainer/model/2", "Trainer/model/4"} <= project.folders()
    assert rollback(project.target, to=newest) == newest
    assert (project.target / str(newest) / "saved_model.pb").read_text() == "rows of 3 rows of 4"


def test_a_root_that_a_run_holds_is_refused(project: Project):
    before = project.everything()
    with locks.run_lock(project.root), pytest.raises(UserError, match="held by another: a run, process"):
        project.collect()
    assert project.everything() == before


def test_a_dry_run_needs_no_root_that_can_be_written(project: Project, read_only):
    expected, before = collect(project.root, project.target, 1, NextRun(), dry_run=True), project.everything()
    (project.root / "metadata.sqlite.lock").unlink()
    read_only()
    assert collect(project.root, project.target, 1, NextRun(), dry_run=True) == expected
    with pytest.raises(OSError, match=r"Read-only file system: .*\.run\.lock"):
        collect(project.root, project.target, 1, NextRun())
    assert project.everything() == before


def test_a_root_that_was_moved_is_refused(project: Project, tmp_path: Path):
    moved = shutil.copytree(project.root, tmp_path / "elsewhere")
    with pytest.raises(UserError, match="copied or moved"):
        collect(moved, project.target, 1, NextRun())
    assert len(list(moved.glob("Trainer/model/*"))) == 4


def test_links_are_never_followed(project: Project, tmp_path: Path):
    outside = tmp_path / "outside"
    for path in ("7/rows", "tft-1/f9.accumulators", "2001/old.log", "train-1/block", "5_0_f5_0a0a0a0a.json.gz"):
        nodes.write(outside / Path(path).parent, Path(path).name, "of somebody else")
        os.utime(outside / path, (0, 0))
        os.utime((outside / path).parent, (0, 0))
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    shutil.rmtree(project.root / "input_cache")
    behind = "analyzer_cache/tft-2 input_cache logs/2001 work/Trainer schedule span_statistics span_index"
    behind += " Linked Ingest/linked Trainer/.system/stateful_working_dir/linked Trainer/model/70"
    for name in behind.split():
        link = project.root / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(outside)
        link.with_name(f"{link.name}0").symlink_to(outside / "gone")
    (project.root / "Linked2").mkdir()
    (project.root / "Linked2" / ".system").symlink_to(outside)
    said = project.collect(index=(), dry_run=True)
    assert project.collect(index=()) == said
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
    assert said.links == ("Linked", "Linked0", "input_cache", "input_cache0") + (
        "schedule", "schedule0", "span_index", "span_index0", "span_statistics", "span_statistics0")  # fmt: skip
    # A link that nothing needs goes itself.
    assert not (project.root / "Trainer" / "model" / "70").is_symlink()
    for link in [path for path in project.root.rglob("*") if path.is_symlink()]:
        link.unlink()
    assert {name for name, state in project.artifacts().items() if state == "LIVE"} == KEPT == project.folders()


def test_the_folder_of_a_needed_artifact_may_be_a_link(project: Project, tmp_path: Path):
    moved = (project.root / "Trainer").rename(tmp_path / "elsewhere")
    (project.root / "Trainer").symlink_to(moved)
    before = {path for path in moved.rglob("*")}
    assert project.collect().links == ("Trainer",)
    assert {path for path in moved.rglob("*")} == before


@pytest.mark.parametrize("folder", ["a#b", "a?b", "a%23b", "a b[1]"])
def test_a_root_may_have_any_name(project: Project, tmp_path: Path, folder):
    (tmp_path / folder).mkdir()
    project.root = project.root.rename(tmp_path / folder / "runs")
    move_addresses(project.root / "metadata.sqlite", tmp_path / "runs", project.root)
    beside = set(tmp_path.iterdir())
    project.collect()
    assert {name for name, state in project.artifacts().items() if state == "LIVE"} == KEPT
    assert set(tmp_path.iterdir()) == beside


def test_metadata_of_another_version_is_refused(project: Project):
    with sqlite3.connect(project.root / "metadata.sqlite") as database:
        database.execute("UPDATE MLMDEnv SET schema_version = 11")
    with pytest.raises(UserError, match="schema 11; this release of Fullpass supports 10"):
        project.collect()


COLLECT_AND_DIE = """
import os, shutil, signal, sys
from pathlib import Path
from fullpass.pipeline.registry.retention import collect, records
from fullpass.base import folders
from fullpass.pipeline.registry.retention.collect import NextRun
root, target, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "records":
    delete, calls = records._delete, []
    def then_die(*arguments):
        delete(*arguments)
        calls.append(arguments)
        if len(calls) == 2:
            die()
    records._delete = then_die
elif when == "between":
    folders.remove = die
else:
    # In the middle of the examples of span 1.
    remove = shutil.rmtree
    def partly(path):
        if "Ingest/examples" in str(path):
            (Path(path) / "quarantine.parquet").unlink()
            die()
        remove(path)
    folders.shutil.rmtree = partly
collect.collect(root, target, 1, NextRun((3, 4)))
"""


@pytest.mark.parametrize("when", ["records", "between", "files"])
def test_the_next_collection_completes_one_that_was_killed(project, when):
    command = [sys.executable, "-c", COLLECT_AND_DIE, str(project.root), str(project.target), when]
    done = subprocess.run(command, cwd=REPOSITORY, timeout=LIMIT_SECONDS, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    live = {name for name, state in project.artifacts().items() if state == "LIVE"}
    assert live <= project.folders() and (live == KEPT) is (when != "records")
    project.collect()
    assert {name for name, state in project.artifacts().items() if state == "LIVE"} == KEPT == project.folders()
    assert {name for name, state in project.artifacts().items() if state == "DELETED"} == ONLY_RECORDED
    assert not any(project.collect().counts.values())


def test_records_are_read_as_ml_metadata_reads_them(four_runs: Project):
    found = records.read_metadata(four_runs.root / "metadata.sqlite")
    with metadata_store.LockedMetadata(four_runs.root / "metadata.sqlite") as handle:
        artifacts, executions = handle.store.get_artifacts(), handle.store.get_executions()
        runs = handle.store.get_contexts_by_type("pipeline_run")
    assert {a.id: (a.type, a.uri, a.state) for a in artifacts} == {
        a.id: (a.type, a.uri, a.state) for a in found.artifacts.values()
    }
    assert {e.id: e.last_known_state for e in executions} == {e.id: e.state for e in found.executions.values()}
    assert [run.name for run in sorted(runs, key=lambda run: run.id)] == [run.name for run in found.runs]
