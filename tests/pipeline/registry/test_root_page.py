"""The page of a root: runs, models, and the nodes of the newest run, as a file that links only within the root."""

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ml_metadata import proto

import fullpass
from fullpass.base import state_file
from fullpass.components.push.push import push, served_versions
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.cli import app
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.registry.root_page import write_page_after_run, write_pages_of, write_root_page
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.execution.metadata_store import record_run
from fullpass.pipeline.running.execution.records import locked_store
from tests.components.pages.test_vega import Elements
from tests.components.report.test_report import loads_nothing, read
from tests.pipeline.conftest import VALID
from tests.pipeline.record.test_list_runs import CODE, FIRST, write

RUN = FIRST.run_id
HOSTILE = "<b>auc</b> is 0.7"


def node(status="ok", seconds=2.5, after=()):
    return {"status": status, "seconds": seconds, "cpu_seconds": 1.0, "peak_mib": 400, "after": [*after]}


@pytest.fixture
def loaded(edited):
    return load(edited())


@pytest.fixture
def root(loaded) -> Path:
    """A run with a report, and a newer one that was refused; the metadata say that Ingest made examples."""
    root = loaded.folder / "runs" / loaded.config.name
    report = root / "Report" / "report" / "7" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("page")
    write(root, replace(FIRST, report=str(report)))
    nodes = {"Ingest": node(), "Schema": node("cached", 0), "Trainer": node("failed", after=["Ingest", "Schema"])}
    refused = replace(FIRST, run_id="20260102-030000-000000", outcome="not_blessed", message=HOSTILE, pushed_to=None)
    write(root, replace(refused, rows_read=120, metrics={"auc": 0.7}, nodes=nodes))
    (RootLayout(root).run_logs("20260102-030000-000000") / "Ingest.log").write_text("")
    examples = root / "Ingest" / "examples" / "1"
    examples.mkdir(parents=True)
    facts = RunFacts(config={"hash": "1", "yaml": ""}, code=CODE)
    record_run(RootLayout(root).metadata, loaded.config.name, "20260102-030000-000000", facts)
    record_nodes(root, "20260102-030000-000000", examples)
    return root


def record_nodes(root: Path, run_id: str, examples: Path) -> None:
    """Records, as TFX does, that Ingest made examples."""
    with locked_store(RootLayout(root).metadata, writes=True) as store:
        run = store.get_context_by_type_and_name("pipeline_run", run_id)
        types = {
            "artifact": store.put_artifact_type(proto.ArtifactType(name="Examples")),
            "execution": store.put_execution_type(proto.ExecutionType(name="node")),
            "context": store.put_context_type(proto.ContextType(name="node")),
        }
        [artifact] = store.put_artifacts([proto.Artifact(type_id=types["artifact"], uri=str(examples))])
        [context] = store.put_contexts([proto.Context(type_id=types["context"], name="taxi.Ingest")])
        [execution] = store.put_executions([proto.Execution(type_id=types["execution"])])
        links = [proto.Association(context_id=c, execution_id=execution) for c in (run.id, context)]
        store.put_attributions_and_associations([], links)
        store.put_events([proto.Event(artifact_id=artifact, execution_id=execution, type=proto.Event.OUTPUT)])


def test_the_page_shows_nodes_models_and_runs(loaded, root):
    page = write_root_page(root, "taxi", loaded.folder / "serving").read_text(encoding="utf-8")
    tags, text = read(page)
    loads_nothing(page, tags)
    assert "outcome not blessed" in text and HOSTILE in text and "No model has been pushed." in text
    assert "Ingest ok 2.5 s 1.0 s 400 MiB log , examples" in text and "Schema cached Trainer failed 2.5 s" in text
    assert "that take longest together: 5.0 s." in text and page.count("marker-end") == 2
    assert len(re.findall(r'<g class="(?:good|bad) thick">', page)) == 2, "Ingest and Trainer"
    links = re.findall(r'href="([^"]*)"', page)
    assert {"logs/20260102-030000-000000/Ingest.log", "Ingest/examples/1", "Report/report/7/report.html"} <= {*links}
    assert all((root / link).exists() for link in links)


def test_a_root_of_thousands_of_runs_has_a_page_of_the_newest(loaded, root):
    older = (replace(FIRST, run_id=f"20250101-{i:06}-000000", pushed_to=None) for i in range(5000))
    RunHistory(root).record(FIRST, *older)
    began = time.monotonic()
    page = write_root_page(root, "taxi", loaded.folder / "serving").read_text()
    assert time.monotonic() - began < 5
    assert len({*re.findall(r"20250101-\d{6}", page)}) == 98 and "fullpass runs --last 1000" in page
    beside = json.loads(Elements(page).scripts[1][1])
    assert len(beside) == 100 and "" not in beside[-1]["facts"], "the settings of a run without logs are not known"
    assert not [file for file in os.listdir(root) if file.endswith(".part")]


def test_a_page_that_cannot_be_written_is_told_and_does_not_fail_the_run(loaded, root, capsys):
    file = RootLayout(root).run_file(RUN)
    file.write_text(file.read_text().replace("true", "false"))
    write_page_after_run(loaded, None)
    assert "The page of all runs could not be written: DamagedState" in capsys.readouterr().err


def test_runs_can_be_put_side_by_side_and_a_chart_says_what_changed(loaded, root):
    """The YAML of the first run has another feature; the page holds only the settings that differ."""
    written = VALID.replace("fare: number", "fare: number\n  zone: {type: number, missing: 0}")
    write(root, replace(FIRST, run_id="20260103-030000-000000", file="my taxi.yaml", pushed_to=None), written)
    elements = Elements(write_root_page(root, "taxi", loaded.folder / "serving").read_text(encoding="utf-8"))
    spec, beside = (json.loads(text) for attrs, text in elements.scripts[:2])
    first, refused, newest = (row for row in spec["data"]["values"] if row["metric"] == "auc")
    assert [row["value"] for row in (first, refused, newest)] == [0.9, 0.7, 0.9]
    assert (first["changed"], newest["changed"]) == ("nothing", "YAML")
    assert newest["what changed"].startswith("+ features.zone")
    facts = {one["run"]: one["facts"] for one in beside}
    assert facts[newest["run"]]["features.zone.missing"] == "0" and "features.zone.missing" not in facts[RUN]
    assert "label.name" not in facts[RUN], "equal in all runs"
    assert facts[RUN]["auc"] == "0.9000" and facts[refused["run"]]["auc"] == "0.7000"
    assert 'data-file=" --file &#39;my taxi.yaml&#39;"' in (root / "index.html").read_text()


@pytest.fixture
def pushed(loaded, root) -> list[str]:
    """Each of two runs of the root pushed a model, the second of which is served. Returns the versions."""
    for number, run in enumerate((RUN, "20260102-030000-000000")):
        model = root / "Trainer" / "model" / str(number)
        export = model / "Format-Serving"
        (export / "assets.extra").mkdir(parents=True)
        (export / "saved_model.pb").write_text("graph")
        state_file.write(export / "assets.extra" / "fullpass.json", {"name": "taxi"})
        version = push(export, loaded.folder / "serving", keep=5, origin=str(model)).version
        RunHistory(root).record(replace(FIRST, run_id=run, pushed_to=str(loaded.folder / "serving" / str(version))))
    return [str(version) for version in served_versions(loaded.folder / "serving")]


def told(root: Path) -> str:
    """Returns the text of the page, with single blanks."""
    return read((root / "index.html").read_text(encoding="utf-8"))[1]


@pytest.mark.parametrize("of_the_yaml", [True, False])
def test_a_rollback_writes_the_page_again(loaded, root, pushed, of_the_yaml):
    first, second = pushed
    write_page_after_run(loaded, None)
    assert f"version {second}, served now" in told(root)
    assert f"version {first}, not served now (a newer one is)" in told(root)
    if of_the_yaml:
        fullpass.Pipeline.of(loaded).rollback()
    else:
        app(["rollback", str(loaded.folder / "serving")], standalone_mode=False)
    assert f"version {first}, served now" in told(root)
    assert f"version {second}, not served now (put aside)" in told(root)
    shown = re.findall(rf"({first}|{second}) [-0-9]+ [0-9:]+ (served|put aside)", told(root))
    assert shown == [(second, "put aside"), (first, "served")]


def test_the_pages_of_all_roots_with_models_in_a_folder_are_written(loaded, root, pushed):
    assert not (root / "index.html").exists()
    write_pages_of(loaded.folder / "serving")
    assert (root / "index.html").is_file()


def test_models_of_a_root_that_is_gone_have_no_page(loaded, root, pushed, capsys):
    root.rename(root.with_name("moved"))
    write_pages_of(loaded.folder / "serving")
    assert not root.exists() and capsys.readouterr().err == ""
