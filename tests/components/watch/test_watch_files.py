"""One day of requests in the log of `fullpass serve`, in PredictionLogs and in Parquet: the same figures of each."""

import json
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.serving.log_writer import LogOptions, RequestLog
from fullpass.components.watch import watch_files
from fullpass.components.watch.came_in import HOUR, watched_series
from fullpass.components.watch.config import LABELS, LabelTable, ServingLogConfig
from fullpass.components.watch.log_rows import LoggedColumns, LogReader
from fullpass.components.watch.watch_files import WatchFiles
from fullpass.components.watch.went_out import ScoringPlan
from fullpass.pipeline.config import BeamConfig
from fullpass.pipeline.running.beam_args import beam_args
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from tests.components.ingest.readers.test_prediction_log import predicted
from tests.components.serving.conftest import api, ask, exported, planted, pushed, versions
from tests.components.serving.test_app import PREDICT, RAW
from tests.record_files import example, write_records
from tests.trainer.conftest import planted_rows

__all__ = ["api", "exported", "planted", "pushed", "versions"]
pytestmark = pytest.mark.integration

ROWS = [row | {"note": None} for row in planted_rows(120, 9)]
COLUMNS = ("x", "trip miles", "kind", "city", "tags", "position")


@pytest.fixture(scope="module")
def logs(versions, tmp_path_factory):
    """Folders of the same requests in each log, and what tells how each is read."""
    from fullpass.components.serving.app import RequestLimits, RestApi

    folder = tmp_path_factory.mktemp("logs")
    options = {"sample": 1.0, "format": "jsonl", "left_out": (), "rotate_bytes": 1 << 20, "rotate_seconds": 60.0}
    log = RequestLog(LogOptions(folder / "serve", **options), lambda: versions.current, pytest.fail)
    app = RestApi("trips", versions, RequestLimits(1 << 20, 100), pytest.fail, log=log, id_column="trip")
    for begin in range(0, len(ROWS), 40):
        given = [
            {versions.current.keys[name]: row[name] for name in COLUMNS if row[name] is not None}
            | {"trip": f"t{begin + n}"}
            for n, row in enumerate(ROWS[begin : begin + 40])
        ]
        [answer] = ask(app, ("POST", PREDICT, {**RAW, "instances": given}))
        assert answer.status_code == 200, answer.text
    app.close()
    log.close()
    lines = [json.loads(line) for path in folder.glob("serve/*/*") for line in path.read_text().splitlines()]
    lines.sort(key=lambda line: int(line["log_id"][1:]))
    return (
        folder,
        lines,
        {
            "serve": ({"format": "serving_log", "path": str(folder / "serve/*/*")}, {}),
            "examples": (_examples(folder / "examples", lines), {"id": "trip", "time": "asked"}),
            "tensors": (_tensors(folder / "tensors", lines, versions.current.keys), {}),
            "parquet": (
                _parquet(folder / "parquet", lines),
                {"id": "request", "time": "at", "scores": "s", "label": "l"},
            ),
        },
    )


def _raw(line):
    return {name: line.get(name) for name in COLUMNS}


def _examples(folder, lines):
    folder.mkdir()
    calls = []
    for line in lines:
        features = _raw(line) | {"trip": line["log_id"], "asked": line["log_time"]}
        calls.append(predicted({"examples": [example(features)]}, line["log_scores"], [line["log_label"].encode()]))
    write_records(folder / "a.gz", [one.SerializeToString() for one in calls])
    return {"format": "serving_log", "path": str(folder)}


def _tensors(folder, lines, keys):
    """Their ids are made, and their times are whole seconds."""
    folder.mkdir()
    calls = []
    for begin in range(0, len(lines), 30):
        some = lines[begin : begin + 30]
        inputs = {keys[n]: np.array([line.get(n, np.nan) for line in some], np.float32) for n in ("x", "trip miles")}
        inputs["position"] = np.array([line.get("position", [np.nan] * 2) for line in some], np.float32)
        inputs |= {n: [line.get(n, "").encode() for line in some] for n in ("kind", "city", "tags")}
        scores, classes = [line["log_scores"][0] for line in some], [line["log_label"].encode() for line in some]
        seconds = int(datetime.fromisoformat(some[0]["log_time"]).timestamp())
        calls.append(predicted(inputs, scores, classes, seconds=seconds))
    write_records(folder / "a.tfrecord", [one.SerializeToString() for one in calls])
    return {"format": "serving_log", "path": str(folder)}


def _parquet(folder, lines):
    folder.mkdir()
    names = {"log_id": "request", "log_time": "at", "log_version": "log_version", "log_scores": "s", "log_label": "l"}
    rows = [_raw(line) | {new: line[old] for old, new in names.items()} for line in lines]
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return {"format": "parquet", "path": str(folder)}


def watched(logs, name, exported, tmp_path, read=WatchFiles.watch):
    """Returns what is found in one of the logs."""
    _, lines, how = logs
    source, names = how[name]
    labels = tmp_path / "labels.csv"
    labels.write_text("id,likes\n" + "".join(f"t{n},{row['likes']}\n" for n, row in enumerate(ROWS) if n % 3))
    config = ServingLogConfig.model_validate({"source": source, **names})
    table = LabelTable.model_validate({"source": {"format": "csv", "path": str(labels)}, "on": "id"})
    late = RawColumn("likes", "string", token=True)
    files = Tables(tuple(find_inputs(table.source, str)))
    named = RawColumn(f"{LABELS}.likes", "string", token=True)
    index = build_index(LABELS, table.join(config.id), files, [named], 1.0, str(tmp_path))
    declared = PreprocessingConfig.model_validate(exported("binary").prepared.preprocessing)
    columns = {n: c for n, c in raw_columns(declared).items() if n in COLUMNS}
    first = int(datetime.fromisoformat(lines[0]["log_time"]).timestamp() * 1e6)
    reader = LogReader(config, {7: LoggedColumns(columns, {"likes": late})}, 7, first - HOUR, first + HOUR, index)
    plan = ScoringPlan(str(exported("binary").directory), {"kind": "string"}, 1e-4)
    accumulator = SliceAccumulator(("example_count", "auc"), (("kind",),), None, 1)
    series = {7: watched_series(declared, columns, None)}
    found = read(WatchFiles(find_inputs(config.source, str), reader, series, {7: plan}, accumulator))
    return found, accumulator


@pytest.mark.parametrize("name", ["examples", "tensors", "parquet"])
def test_all_logs_have_the_figures_of_serve(logs, name, exported, tmp_path):
    expected, accumulator = watched(logs, "serve", exported, tmp_path)
    found, _ = watched(logs, name, exported, tmp_path)
    assert (found.count.rows, found.count.bad) == (len(ROWS), {})
    assert found.hours == expected.hours
    [again] = found.out.again.values()
    assert (again.rows, again.differing) == (min(50, again.rows) if name == "tensors" else again.rows, 0)
    if name == "tensors":  # whose ids are not those of the labels
        assert found.out.labelled == {}
        return
    [mine], [other] = found.out.labelled.values(), expected.out.labelled.values()
    for one, two in zip(measured_of(accumulator, mine), measured_of(accumulator, other), strict=True):
        assert (one.keys, one.values, one.errors) == (two.keys, two.values, two.errors)


def test_metrics_are_those_of_scikit_learn_on_the_joined_rows(logs, exported, tmp_path):
    found, accumulator = watched(logs, "serve", exported, tmp_path)
    whole, *_ = measured_of(accumulator, next(iter(found.out.labelled.values())))
    known = [n for n in range(len(ROWS)) if n % 3]
    scores = [logs[1][n]["log_scores"][0] for n in known]
    assert whole.values["example_count"] == len(known)
    assert whole.values["auc"] == pytest.approx(
        roc_auc_score([ROWS[n]["likes"] == "yes" for n in known], scores), abs=1e-6
    )


def test_another_model_shows_in_the_answers(logs, exported, tmp_path):
    folder, lines, how = logs
    changed = tmp_path / "changed.jsonl"
    rows = [line | {"log_scores": [line["log_scores"][0] + 0.25]} if n % 2 else line for n, line in enumerate(lines)]
    changed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    other = (folder, lines, {"changed": ({"format": "serving_log", "path": str(changed)}, {})})
    [again] = watched(other, "changed", exported, tmp_path)[0].out.again.values()
    assert again.rows >= 80 and again.differing == pytest.approx(again.rows / 2, abs=15)
    assert again.largest == pytest.approx(0.25, abs=1e-6)


def test_workers_of_beam_find_what_one_process_finds(logs, exported, tmp_path, monkeypatch):
    """Each file is an element, and the states come together in the order of the files."""
    folder, lines, _ = logs
    source = tmp_path / "files"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[number::5]))
    monkeypatch.setattr(watch_files, "_FILE_BYTES", 1)
    several = (folder, lines, {"files": ({"format": "serving_log", "path": str(source)}, {})})
    (tmp_path / "pending").mkdir()
    args = beam_args(BeamConfig(workers=1), data_bytes=1)

    def on_beam(files):
        assert len(files.ranges) == 5
        return files.watch_on_beam(args, str(tmp_path / "pending"))

    one, accumulator = watched(several, "files", exported, tmp_path)
    other, _ = watched(several, "files", exported, tmp_path, on_beam)
    assert (other.count, other.hours, other.out.again) == (one.count, one.hours, one.out.again)
    [mine], [theirs] = one.out.labelled.values(), other.out.labelled.values()
    for first, second in zip(measured_of(accumulator, mine), measured_of(accumulator, theirs), strict=True):
        assert (first.keys, first.values, first.errors) == (second.keys, second.values, second.errors)
