"""Stores a few raw examples with the model, as sample requests for users and servers.

The Transform component stores some rows of the eval split with the transform graph (`write_samples`), because the
Trainer reads transformed examples only. The export contains them as requests.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import gather
from fullpass.trainer.records.record_files import record_batches

SAMPLE_FILE = "sample_examples.tfrecord"
"""File in the folder of a transform graph: serialized raw examples of the eval split."""
SAMPLE_ROWS = 10
"""Sample requests of an export."""

Row = dict[str, Any]
"""Raw column -> number, text, bytes that are not UTF-8, a list of these, or None where missing."""
_SAMPLE_BYTES = 4 << 20
"""Bytes of the stored rows at most: they are copied into every export."""
_LINE_BREAKS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Characters that end a line for some readers of JSON lines, as NEL, LS and PS of Unicode -> their escapes."""


def write_samples(transform_output: str, files: Sequence[str]) -> None:
    """Stores the first rows of raw TFRecord `files` in the folder of a transform graph; fewer if they are large."""
    batches = chain.from_iterable(record_batches(file, rows=SAMPLE_ROWS, most_bytes=_SAMPLE_BYTES) for file in files)
    first = next(gather(chain.from_iterable(batches), len, rows=SAMPLE_ROWS, most_bytes=_SAMPLE_BYTES), [])
    pending = f"{transform_output}/{SAMPLE_FILE}.tmp"
    with tf.io.TFRecordWriter(pending) as writer:
        for record in first:
            writer.write(record)
    tf.io.gfile.rename(pending, f"{transform_output}/{SAMPLE_FILE}", overwrite=True)


def read_samples(transform_output: str) -> list[bytes]:
    """Returns the rows that `write_samples` stored; if there are none, one example in which every value is missing."""
    path = f"{transform_output}/{SAMPLE_FILE}"
    if not tf.io.gfile.exists(path):
        return [tf.train.Example().SerializeToString()]
    return list(islice(tf.data.TFRecordDataset(path).as_numpy_iterator(), SAMPLE_ROWS))


def to_row(example: bytes, columns: Mapping[str, RawColumn]) -> Row:
    """Returns the serving columns of a serialized raw example."""
    features = tf.train.Example.FromString(example).features.feature
    return {name: _cell(features[name], column) if name in features else None for name, column in columns.items()}


def to_columns(rows: Sequence[Row], columns: Mapping[str, RawColumn]) -> dict[str, list[Any]]:
    """Returns the inputs of `serving_raw` by column: NaN for a missing number, "" for missing text.

    Lists are padded with missing elements to the length of the longest list.
    """
    return {name: _column([row[name] for row in rows], column) for name, column in columns.items()}


def request_json(value: Any) -> str:
    """Returns a row or a request as one line of JSON.

    Bytes that are not UTF-8 become `{"b64": ...}`, which TF Serving reads. The line breaks of Unicode are escaped. NaN
    stays NaN, because TF Serving reads no null.
    """
    text = json.dumps(value, ensure_ascii=False, default=lambda data: {"b64": base64.b64encode(data).decode("ascii")})
    return text.translate(_LINE_BREAKS)


def rest_body(rows: Sequence[Row], columns: Mapping[str, RawColumn], keys: Mapping[str, str], signature: str) -> str:
    """Returns the body of a POST to TF Serving's `:predict`, in its columnar form.

    A column without any value is written as an empty list. If all columns are, the first one is written in full,
    because it determines the number of rows. A column of lists has an empty list per row. NaN is written without
    quotes, which TF Serving reads although JSON does not define it.
    """
    values = to_columns(rows, columns)
    empty = [name for name in columns if all(row[name] is None for row in rows) and not columns[name].many]
    omitted = empty[1:] if len(empty) == len(columns) else empty
    given = {keys[name]: [] if name in omitted else values[name] for name in columns}
    return request_json({"signature_name": signature, "inputs": given})


def warmup_log(signature: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    """Returns one record of `tf_serving_warmup_requests`: a call that TF Serving makes before it serves the model."""
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    return log.SerializeToString()


def _column(cells: Sequence[Any], column: RawColumn) -> list[Any]:
    absent = _absent(column)
    if not column.many:
        return [absent if cell is None else cell for cell in cells]
    longest = max(len(cell or ()) for cell in cells)
    padded = [[*(cell or ()), *[None] * (longest - len(cell or ()))] for cell in cells]
    return [[absent if element is None else element for element in cell] for cell in padded]


def _cell(feature: tf.train.Feature, column: RawColumn) -> Any:
    if column.many:
        values = [_text_or_bytes(text) or None for text in feature.bytes_list.value]
        return values or [_shortest(number) for number in feature.float_list.value] or None
    if column.type == "string":
        values = feature.bytes_list.value
        return _text_or_bytes(values[0]) if values else None
    numbers = [_shortest(number) for number in feature.float_list.value]
    if column.type == "vector":
        return numbers or None
    return numbers[0] if numbers else None


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _shortest(number: float) -> float | None:
    """Returns a float32 as the number with the fewest digits that reads back as the same float32."""
    return float(str(np.float32(number))) if math.isfinite(number) else None


def _absent(column: RawColumn) -> Any:
    return {"number": math.nan, "string": "", "vector": [math.nan] * column.width}[column.type]
