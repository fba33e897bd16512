"""Records of PredictionLog, written with the messages of TensorFlow Serving: what each kind of call becomes."""

import gzip

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import ServingLogSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.ingest.reading_tools import raw, read_input
from tests.record_files import example, write_records

OWN = ["log_id", "log_time", "log_version", "log_sampled", "log_scores", "log_label"]


def predicted(inputs, scores, labels=None, *, version=7, rate=0.0, seconds=0):
    """Returns a record of a call of Predict."""
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.timestamp_secs = seconds
    log.log_metadata.sampling_config.sampling_rate = rate
    entry = log.predict_log
    for name, values in inputs.items():
        entry.request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    entry.response.model_spec.version.value = version
    entry.response.outputs["scores"].CopyFrom(tf.make_tensor_proto(np.array(scores, np.float32)))
    if labels is not None:
        entry.response.outputs["prediction"].CopyFrom(tf.make_tensor_proto(labels))
    return log


def classified(rows, scores, labels, context=None):
    """Returns a record of a call of Classify, whose rows may have shared features."""
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.model_spec.version.value = 9
    given = log.classify_log.request.input
    of = given.example_list if context is None else given.example_list_with_context
    of.examples.extend(tf.train.Example.FromString(example(row)) for row in rows)
    if context is not None:
        of.context.CopyFrom(tf.train.Example.FromString(example(context)))
    for row in scores:
        found = log.classify_log.response.result.classifications.add()
        for label, score in zip(labels, row, strict=True):
            found.classes.add(label=label, score=score)
    return log


def regressed(rows, values):
    log = prediction_log_pb2.PredictionLog()
    given = log.regress_log.request.input.example_list
    given.examples.extend(tf.train.Example.FromString(example(row)) for row in rows)
    for value in values:
        log.regress_log.response.result.regressions.add(value=value)
    return log


def read(folder, logs, columns, name="log.tfrecord"):
    records = [log if isinstance(log, bytes) else log.SerializeToString() for log in logs]
    write_records(folder / name, records)
    source = ServingLogSource(format="serving_log", path=str(folder))
    [file] = find_inputs(source, str)
    return read_input(file, source, columns)


def test_raw_tensors_are_columns_by_their_inputs(tmp_path):
    inputs = {
        "trip_miles": np.array([0.1, np.nan], np.float32),
        "zone": [b"a", b""],
        "tags": [[b"x", b"", b"y", b""], [b"", b"", b"", b""]],
        "place": np.array([[1.5, np.nan], [np.nan, np.nan]], np.float32),
    }
    calls = [
        predicted(inputs, [0.25, 0.75], [b"no", b"yes"], rate=0.5, seconds=1_767_268_800),
        predicted({"trip_miles": np.array([], np.float32), "zone": [b"c"]}, [[0.5, 0.25, 0.25]]),
    ]
    columns = raw(**{"trip miles": "number", "zone": "string", "tags": "string", "place": 2, "absent": "string"})
    columns |= {name: RawColumn(name, "string") for name in OWN}
    rows, numbers, bad = read(tmp_path, calls, columns)
    assert numbers == [1, 2, 3] and bad == []
    assert [row[0] for row in rows] == [np.float32(0.1), None, None]
    assert [row[1] for row in rows] == [b"a", None, b"c"]
    assert [row[2] for row in rows] == [[b"x", b"", b"y"], None, None]
    assert rows[0][3][0] == 1.5 and rows[1][3] is None and [row[4] for row in rows] == [None] * 3
    first = ("log.tfrecord-1-0", "2026-01-01T12:00:00+00:00", 7, 0.5, [0.25], "no")
    assert rows[0][5:] == first and rows[1][5:] == ("log.tfrecord-1-1", *first[1:4], [0.75], "yes")
    assert rows[2][5:] == ("log.tfrecord-2-0", None, 7, 1.0, [0.5, 0.25, 0.25], None)


def test_examples_of_all_calls_are_their_features(tmp_path):
    rows = [{"km": 0.1, "zone": "ü"}, {"km": 2.0}]
    calls = [
        predicted({"examples": [example(row) for row in rows]}, [0.25, 0.75]),
        classified(rows, [[0.75, 0.25], [0.125, 0.875]], ["no", "yes"]),
        classified(rows, [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], ["a", "b", "c"], context={"zone": "shared", "at": "x"}),
        regressed(rows, [3.5, -1.0]),
    ]
    columns = ["km", "zone", "at", "log_version", "log_scores", "log_label"]
    found, numbers, bad = read(tmp_path, calls, columns)
    assert numbers == list(range(1, 9)) and bad == []
    assert [row[0] for row in found] == [[np.float32(0.1)], [2.0]] * 4
    zones = [["ü".encode()], None] * 2 + [["ü".encode()], [b"shared"]] + [["ü".encode()], None]
    assert [row[1] for row in found] == zones
    assert [row[2] for row in found] == [None] * 4 + [[b"x"]] * 2 + [None] * 2
    assert [row[3] for row in found] == [7, 7, 9, 9, 9, 9, None, None]
    assert [row[4] for row in found] == [
        [0.25], [0.75], [0.25], [0.875], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [3.5], [-1.0]
    ]  # fmt: skip
    assert [row[5] for row in found] == [None, None, "no", "yes", "a", "b", None, None]


def test_what_is_no_prediction_is_a_bad_row(tmp_path):
    session = prediction_log_pb2.PredictionLog()
    session.session_run_log.request.model_spec.name = "m"
    uneven = predicted({"km": np.array([1.0, 2.0], np.float32), "zone": [b"a"]}, [0.5, 0.5])
    good = predicted({"examples": [example({"km": 1.0})]}, [0.5])
    broken = predicted({"examples": [example({"km": 2.0}), b"\xff\xff"]}, [0.25, 0.125])
    rows, numbers, bad = read(tmp_path, [b"\xff", session, good, uneven, broken], ["km", "log_scores"])
    assert [(n, *row) for n, row in zip(numbers, rows, strict=True)] == [(3, [1.0], [0.5]), (5, [2.0], [0.25])]
    assert [(row.row, row.reason) for row in bad] == [
        (1, "no PredictionLog: not one of predict_log, classify_log, regress_log"),
        (2, "session_run_log: not one of predict_log, classify_log, regress_log"),
        (4, "inputs of 1, 2 rows"),
        (6, "no tf.Example"),
    ]


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("2026-01-08/07/a.gz", "2026-01-08T07:00:00+00:00"),
        ("2026-01-08T23.gz", "2026-01-08T23:00:00+00:00"),
        ("2026-01-08-4711.gz", "2026-01-08T00:00:00+00:00"),
        ("a.gz", None),
    ],
)
def test_a_record_without_a_time_has_that_of_its_path(tmp_path, name, time):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_records(tmp_path / "plain", [predicted({"km": np.array([1.0], np.float32)}, [0.5]).SerializeToString()])
    path.write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    source = ServingLogSource(format="serving_log", path=str(path))
    [file] = find_inputs(source, str)
    assert read_input(file, source, ["km", "log_time"])[0] == [(1.0, time)]
