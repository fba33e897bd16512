"""The results of look-up containers: files with their fingerprint, and blessed models in a registry."""

import copy
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fullpass.base.errors import UserError
from fullpass.base.json_text import parse_json
from fullpass.components.data_gate.gate_verdict import GateFinding, JudgedSpan, SpanRelease
from fullpass.components.data_gate.span_verdicts import KnownVerdicts, VerdictStore
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request, read_request
from fullpass.components.push.push import push, rollback
from fullpass.kubeflow.runtime.executor_input import ArtifactCopy, parse_message
from fullpass.kubeflow.runtime.lookup import find_run_inputs
from fullpass.kubeflow.runtime.registry import FolderRegistry, record_evaluated
from fullpass.kubeflow.runtime.span_store import SpanStore, StoredSpan
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.kubeflow.backend.metadata import DAG
from tests.kubeflow.backend.run import Backend
from tests.kubeflow.conftest import as_text, toy, toy_package


@pytest.fixture(params=["path", "memory://"])
def registry(request, tmp_path):
    return FolderRegistry(str(tmp_path) if request.param == "path" else f"memory://{tmp_path.name}/registry")


def find_inputs(run="a-run", **parameters) -> dict[str, str]:
    """Returns the output parameters of the look-up of a run. `registry` is one of its parameters."""
    uri = f"minio://b/root/{parameters['pipeline']}/{run}/find-inputs/salt/nothing"
    given = {"push_to": f"{parameters['registry']}/pushed", "made_from": "a", "gates": "{}"} | parameters
    message = {
        "inputs": {"parameterValues": given},
        "outputs": {"artifacts": {"nothing": {"artifacts": [{"uri": uri}]}}, "outputFile": "/tmp/unused"},
    }
    artifacts, found = find_run_inputs(parse_message(json.dumps(message), {}, {"nothing": "/nowhere"}))
    assert not artifacts
    return found


def test_a_registry_gives_the_newest_model_that_was_made_from_something_else(registry):
    assert registry.newest_blessed("taxi", made_from="a") is None
    for model, made_from in (("s3://b/1", "a"), ("s3://b/2", "b"), ("s3://b/3", "c"), ("s3://b/4", "c")):
        assert registry.record_blessed("taxi", model, "s3://b/blessing", made_from)
    assert registry.newest_blessed("taxi", made_from="c").model == "s3://b/2"
    assert registry.newest_blessed("taxi", made_from="d").model == "s3://b/4"
    assert registry.newest_blessed("taxi", made_from="d", rolled_back={"s3://b/4", "s3://b/2"}).model == "s3://b/3"
    assert registry.newest_blessed("taxi", made_from="d", rolled_back={f"s3://b/{n}" for n in range(5)}) is None
    assert registry.newest_blessed("flights", made_from="a") is None


def test_a_model_is_recorded_once(registry):
    assert registry.record_blessed("taxi", "s3://b/1", "x", "a") and registry.record_blessed(
        "taxi", "s3://b/2", "x", "b"
    )
    assert not registry.record_blessed("taxi", "s3://b/1", "x", "a")
    assert registry.newest_blessed("taxi", made_from="").model == "s3://b/2"


def test_a_spoilt_entry_is_named(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/1.json").write_text("{}")
    with pytest.raises(UserError, match=r"taxi/blessed/1\.json: not a registry entry"):
        FolderRegistry(str(tmp_path)).newest_blessed("taxi", made_from="")


def test_a_half_written_entry_is_not_read(tmp_path):
    (tmp_path / "taxi/blessed").mkdir(parents=True)
    (tmp_path / "taxi/blessed/.1.json.part").write_text("{")
    assert FolderRegistry(str(tmp_path)).newest_blessed("taxi", made_from="") is None


@pytest.mark.integration
def test_while_no_model_was_blessed_an_unchanged_run_repeats_no_node_that_would_follow_one(tmp_path, taxi_package):
    """Runs the look-up of the taxi package, and a node with its model as input, under the backend's rules."""
    see = "os.makedirs(paths['out']); open(paths['out'] + '/seen', 'w').write(m['inputs']['artifacts']['model']"
    see += "['artifacts'][0]['uri'] + str(os.path.exists(paths['model'])))"
    node = toy("node", see, artifacts={"model": ("last-blessed-model", "artifact")}, outputs=("out",), cache=True)
    spec, toys = copy.deepcopy(taxi_package.pipeline), toy_package(node)
    tasks, dag = spec["root"]["dag"]["tasks"], spec["components"]["comp-nodes"]["dag"]
    dag["tasks"] = {"last-blessed-model": dag["tasks"]["last-blessed-model"]}
    tasks["find-inputs"]["inputs"]["parameters"]["registry"]["runtimeValue"]["constant"] = str(tmp_path / "registry")
    (tmp_path / "trips.csv").write_text("fare\n1\n")
    dag["tasks"] |= toys["root"]["dag"]["tasks"]
    spec["components"] |= toys["components"]
    spec["deploymentSpec"]["executors"] |= toys["deploymentSpec"]["executors"]
    backend = Backend(tmp_path / "kfp")

    def run() -> dict[str, str]:
        return backend.run(as_text(spec), {"data_path": str(tmp_path / "trips.csv")}).states

    first, again = run(), run()
    assert set(first.values()) == {"COMPLETE"}
    assert backend.metadata.states(DAG)["nodes"] == ["COMPLETE", "RUNNING"], "no container of the DAG ran again"
    assert again == {**first, "node": "CACHED"}
    [seen] = [key for key in backend.store.keys() if key.endswith("/out/seen")]
    uri, exists = backend.store.path(seen).read_text().split("nothing")
    assert uri == "minio://mlpipeline/v2/artifacts/taxi/" and exists == "False"
    assert ArtifactCopy(f"{uri}nothing", tmp_path / "absent", {}, "1").is_absent
    model = tmp_path / "model"
    model.write_text("x")
    backend.store.upload(model, "minio://mlpipeline/earlier/model/file")
    FolderRegistry(str(tmp_path / "registry")).record_blessed("taxi", "minio://mlpipeline/earlier/model", "x", "others")
    assert run()["node"] == "COMPLETE", "a model to follow is something new"


def request_for(path: str) -> str:
    config = {"source": {"format": "csv", "path": path}, "split": {"method": "hash"}, "records": {}, "bad_rows": {}}
    columns = (RawColumn("fare", "number"),)
    return Request(IngestConfig.model_validate(config), ("train", "eval"), columns, gzip=True).to_json()


def found_files(folder: Path, data_path: str = "") -> str:
    parameters = {"request": request_for("*.csv"), "folder": str(folder), "data_path": data_path, "pipeline": "trips"}
    parameters["registry"] = str(folder / "registry")
    given = json.loads(find_inputs(**parameters)["request"])
    text = FolderRegistry(parameters["registry"]).request("trips", given["name"])
    files = [file for span in read_request(text).spans for file in span.files]
    assert given["files"] == len(files) and given["bytes"] == sum(file.size for file in files)
    return text


@pytest.fixture
def baseline(tmp_path):
    """Returns `baseline(row, made_from)`: the URI of the model that a run with this data and training follows."""

    def find(row: int, made_from: str = "parameters") -> str:
        if not (tmp_path / f"{row}.csv").exists():
            (tmp_path / f"{row}.csv").write_text(f"fare\n{row}\n")
        find.found = find_inputs(
            f"run-{row}", request=request_for(f"{row}.csv"), folder=str(tmp_path), made_from=made_from, pipeline="taxi",
            registry=str(tmp_path / "registry"), push_to=str(tmp_path / "taxi"),
        )  # fmt: skip
        return find.found["model_uri"]

    def evaluated(model: str, blessed: float) -> None:
        where = {"registry": str(tmp_path / "registry"), "pipeline": "taxi"}
        record_evaluated(where, find.found, "s3://b/blessing", {"blessed": blessed, "current_model": model})

    find.evaluated = evaluated
    return find


def test_a_blessed_model_is_recorded_and_followed_and_another_is_not(baseline, tmp_path):
    nothing = "minio://b/root/taxi/nothing"
    assert [baseline(day) for day in (1, 2)] == [nothing, nothing], "the same address in all runs"
    for day, blessed in ((1, 1.0), (2, 0.0), (3, 1.0)):
        baseline(day)
        baseline.evaluated(f"s3://b/{day}", blessed)
    assert baseline(4) == "s3://b/3"
    assert baseline(3) == "s3://b/1", "a run of the same data and parameters follows what that followed"
    assert baseline(3, "others") == "s3://b/3"
    baseline(1)
    [first, _] = sorted((tmp_path / "registry/taxi/blessed").iterdir())
    first.unlink()
    assert baseline(3) == nothing, "an entry that was deleted stays away"


def test_a_model_that_was_rolled_back_is_followed_again_once_it_is_served_again(baseline, tmp_path, caplog):
    (tmp_path / "export").mkdir()
    for day in (1, 2):
        baseline(day)
        baseline.evaluated(f"s3://b/{day}", 1.0)
        version = push(tmp_path / "export", tmp_path / "taxi", keep=5, origin=f"s3://b/{day}").version
    assert baseline(3) == "s3://b/2"
    rollback(tmp_path / "taxi")
    with caplog.at_level("INFO"):
        assert baseline(3) == "s3://b/1"
    assert "it was rolled back: s3://b/2" in caplog.text
    rollback(tmp_path / "taxi", to=version)
    assert baseline(3) == "s3://b/2"


def test_the_request_changes_when_a_file_does_and_only_then(tmp_path):
    (tmp_path / "a.csv").write_text("fare\n1\n")
    first = found_files(tmp_path)
    [span] = read_request(first).spans
    assert [file.path for file in span.files] == [str(tmp_path / "a.csv")] and len(span.fingerprint) >= 16
    assert found_files(tmp_path) == first
    (tmp_path / "a.csv").write_text("fare\n2\n")
    os.utime(tmp_path / "a.csv", (time.time() + 5, time.time() + 5))
    second = found_files(tmp_path)
    assert second != first
    (tmp_path / "b.csv").write_text("fare\n3\n")
    assert found_files(tmp_path) not in (first, second)


@pytest.mark.parametrize("given", ["other/*.csv", '["other/c.csv"]'])
def test_a_run_may_name_other_files(tmp_path, given):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/c.csv").write_text("fare\n1\n")
    [span] = read_request(found_files(tmp_path, given)).spans
    assert [file.path for file in span.files] == [str(tmp_path / "other/c.csv")]


@pytest.fixture
def days(tmp_path):
    """Returns `days(span, data_path, widest)`: the result of the look-up for the files of January 1, 2 and 4."""
    for day in (1, 2, 4):
        (tmp_path / f"2013-01-{day:02d}.csv").write_text(f"fare\n{day}\n")

    def find(span="latest", data_path="", widest="2", **schedule):
        parameters = {"request": request_for("{YYYY}-{MM}-{DD}.csv"), "folder": str(tmp_path), "data_path": data_path,
                      "span": span, "spans": widest, "pipeline": "daily", "registry": str(tmp_path / "registry"),
                      "entries": str(tmp_path / "registry/daily/examples"), **schedule}  # fmt: skip
        found = find_inputs(**parameters)
        find.name = json.loads(found["request"])["name"]
        find.known = parse_json(KnownVerdicts, found["known"])
        request = FolderRegistry(parameters["registry"]).request("daily", find.name)
        assert len(found["request"]) + len(found["window"]) < 600, "the number of spans does not matter"
        return json.loads(found["window"]), list(read_request(request).spans)

    def trained(facts):
        where = {"registry": str(tmp_path / "registry"), "pipeline": "daily"}
        record_evaluated(where, {"window": json.dumps(facts), "made_from": "a"}, "s3://b/blessing", {"blessed": 0.0})

    find.trained = trained
    find.verdicts = VerdictStore(str(tmp_path / "registry/daily/span_verdicts"))
    find.folder = tmp_path
    find.store = SpanStore(str(tmp_path / "registry/daily/examples"))
    return find


def test_a_request_holds_the_spans_of_the_window_and_the_newest_is_last(days):
    facts, spans = days("2013-01-02", widest="3")
    assert [(span.number, span.label) for span in spans] == [(15706, "2013-01-01"), (15707, "2013-01-02")]
    assert (facts["number"], facts["label"], facts["fingerprint"]) == (15707, "2013-01-02", spans[1].fingerprint)
    [file] = spans[1].files
    assert file.path == str(days.folder / "2013-01-02.csv")
    other, _ = days("2013-01-02", widest="1")
    assert other["fingerprint"] == facts["fingerprint"] and other["spans"] != facts["spans"]


def test_a_window_that_only_grows_begins_with_the_oldest(days):
    assert [span.label for span in days(widest="all")[1]] == ["2013-01-01", "2013-01-02", "2013-01-04"]


def test_a_span_keeps_its_fingerprint_while_the_window_moves_past_it(days):
    _, before = days("2013-01-02")
    _, after = days("2013-01-02:latest")
    assert before[1] == after[0] and [span.label for span in after] == ["2013-01-02", "2013-01-04"]


def test_a_gap_of_the_window_is_left_out(days):
    assert [span.label for span in days()[1]] == ["2013-01-04"]


def test_a_day_that_the_data_gate_stopped_is_known_to_later_runs_until_one_releases_it(days):
    _, spans = days(widest="3")
    finding = GateFinding("drift", "fare", "stop", "fare: drifted", 2.0)
    held = JudgedSpan(15707, "2013-01-02", spans[0].content, days.known.limits, "f", (finding,), "a-run", "2013-01-02")
    days.verdicts.write(held)
    _, spans = days(widest="3")
    assert days.known.held == (held,) and [span.label for span in spans] == ["2013-01-02", "2013-01-04"]
    _, spans = days(widest="3", gates='{"stopped_spans": "gap"}')
    assert days.known.gaps == (held,) and not days.known.held and [span.label for span in spans] == ["2013-01-04"]
    _, spans = days(widest="3", gates='{"stopped_spans": "gap"}', gate="warn")
    assert days.known.release.how == "gate=warn" and [span.label for span in spans] == ["2013-01-02", "2013-01-04"]
    days.verdicts.write(replace(held, release=SpanRelease("a parameter", "gate=warn", "b-run", "2013-01-03")))
    _, spans = days(widest="3", gates='{"stopped_spans": "gap"}')
    assert not days.known.held and len(days.known.released) == 1 and len(spans) == 2
    (days.folder / "2013-01-02.csv").write_text("fare\n22\n")
    days(widest="3")
    assert [one.label for one in days.known.again] == ["2013-01-02"]
    with pytest.raises(UserError, match="gate: accepted are stop and warn. Received: 'wran'"):
        days(gate="wran")


def test_a_changed_file_is_a_new_version_of_its_span_alone(days):
    _, [one, two] = days("2013-01-02")
    (days.folder / "2013-01-02.csv").write_text("fare\n22\n")
    _, [same, other] = days("2013-01-02")
    assert same == one and (two.version, other.version) == (0, 1) and other.fingerprint != two.fingerprint
    assert days("2013-01-02")[1] == [same, other], "and is known from then on"


def test_ingest_is_asked_anew_only_where_a_span_was_deleted(days):
    """The name of the request is part of Kubeflow's cache key."""
    _, spans = days("2013-01-02")
    first = days.name
    for span in spans:
        (days.folder / span.label).mkdir()
        days.store.add(span, StoredSpan(span.label, str(days.folder / span.label), {}))
    days("2013-01-02")
    assert days.name == first
    (days.folder / "2013-01-01").rmdir()
    days("2013-01-02")
    again = days.name
    assert again != first
    (days.folder / "2013-01-01").mkdir()
    days("2013-01-02")
    assert days.name == again, "what followed from the second ingestion stays valid"
    shutil.rmtree(days.folder / "registry")
    days("2013-01-02")
    assert days.name not in (first, again), "the spans went with the registry"


def test_a_span_that_is_not_there_ends_the_look_up(days):
    with pytest.raises(UserError, match=r"2013-01-03 \(span 15708\) is not there, and nothing was trained"):
        days("2013-01-03")


def test_a_run_of_the_schedule_takes_the_day_that_its_time_asks_for(days):
    zurich = {"schedule": '{"lag": 2, "timezone": "Europe/Zurich"}'}
    # In Zurich it is already the 4th. Two days back is the 2nd; the 4th exists but is not used.
    facts, spans = days("scheduled", schedule_time="2013-01-03T23:30:00Z", **zurich)
    assert facts["label"] == spans[-1].label == "2013-01-02"
    with pytest.raises(UserError, match=r"2013-01-03 .* is not there, and nothing was trained"):
        days("scheduled", schedule_time="2013-01-05T02:00:00Z", **zurich)
    days.trained(facts)
    with pytest.raises(UserError, match="no new span"):
        days("scheduled", schedule_time="2013-01-03T23:30:00Z", **zurich)
    with pytest.raises(UserError, match=r"needs `schedule: \{lag"):
        days("scheduled")
    with pytest.raises(UserError, match="provided no scheduled time. Received: '{{"):
        days("scheduled", schedule_time="{{$.pipeline_job_schedule_time_utc}}", **zurich)


def test_a_run_for_what_is_new_ends_where_nothing_is(days):
    facts, _ = days("new")
    assert facts["label"] == "2013-01-04", "nothing was trained yet"
    assert days("new")[0] == facts, "a run that failed before training is no reason to stop"
    days.trained(facts)
    with pytest.raises(UserError, match="no new span: 2013-01-04 is the newest.*trained on 2013-01-04"):
        days("new")
    assert days("latest")[0] == facts
    (days.folder / "2013-01-04.csv").write_text("fare\n44\n")
    corrected, _ = days("new")
    assert corrected["label"] == "2013-01-04" and corrected != facts, "a corrected file is new"
    days.trained(corrected)
    (days.folder / "2013-01-05.csv").write_text("fare\n5\n")
    assert days("new")[0]["label"] == "2013-01-05"
    days.trained(days("new")[0])
    days.trained(days("2013-01-02")[0])
    with pytest.raises(UserError, match="no new span: 2013-01-05.*trained on 2013-01-05"):
        days("new")  # training on an old window does not make the newest span new


def test_a_registry_remembers_spans_and_the_last_window(registry):
    spans = [KnownSpan(15706, "a" * 16, 0), KnownSpan(-3, "b" * 16, 2)]
    assert registry.known_spans("taxi") == () and registry.newest_trained("taxi") is None
    registry.record_spans("taxi", spans)
    registry.record_spans("taxi", spans[:1])
    assert set(registry.known_spans("taxi")) == set(spans) and registry.known_spans("other") == ()
    assert registry.record_trained("taxi", 2, "b", "two") and registry.record_trained("taxi", 1, "a", "one")
    assert not registry.record_trained("taxi", 2, "b", "two")
    assert registry.newest_trained("taxi").label == "two"


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"data\.source\.path: '\*\.csv' is no file"):
        found_files(tmp_path)


def test_a_message_that_is_none_is_named():
    with pytest.raises(UserError, match="not a message of Kubeflow's launcher.*fullpass compile"):
        parse_message('{"inputs": {}}', {}, {})
