"""Loads an export with TensorFlow alone, and runs its sample requests. It is a program for a fresh process.

    python -I probe.py EXPORT_DIRECTORY

Prints one line of JSON. Any import of Fullpass, TFX or TF Transform fails, as it would on a model server.
"""

import base64
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_FORBIDDEN = (
    "fullpass tfx tfx_bsl tensorflow_transform tensorflow_data_validation tensorflow_model_analysis apache_beam "
    "keras tf_keras pydantic"
)
_SINGLE_CALLS = 200
"""Calls with one row that are measured."""
_BATCH_CALLS = 5
"""Calls with many rows that are measured."""
_ENOUGH_SECONDS = 1.0
"""A slow model answers fewer calls, until they have taken this long."""
_TOLERANCE = 1e-5
"""Relative difference of two signatures at most; float32 has 7 digits, and their graphs sum in different orders."""
_BATCH_ROWS = 1000
"""Rows of such a call at most."""
_BATCH_BYTES = 32 << 20
"""Bytes of such a call at most, as JSON lines."""


def main(directory: Path) -> dict[str, Any]:
    """Returns the predictions of an export for its sample requests, and their latency.

    Raises:
        ValueError: An output is missing, not finite, or differs between the signatures.
    """
    for package in _FORBIDDEN.split():
        sys.modules[package] = None  # type: ignore[assignment]
    gc.disable()  # it would scan the imported modules repeatedly
    import tensorflow as tf

    gc.freeze()
    gc.enable()
    started = time.perf_counter()
    model = tf.saved_model.load(str(directory))
    load_seconds = time.perf_counter() - started
    description = json.loads((directory / "assets.extra" / "fullpass.json").read_text("utf-8"))
    lines = (directory / "assets.extra" / "requests.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line, object_hook=_bytes_or_object) for line in lines]

    by_column = model.signatures["serving_raw"]
    by_example = model.signatures["serving_default"]
    columns = _columns(tf, description, rows)
    answers = _answers(by_column(**columns))
    _check_answers(answers, len(rows))
    examples = tf.constant([_example(tf, description, row) for row in rows])
    _check_equal(answers, _answers(by_example(examples=examples)))

    one = {key: value[:1] for key, value in columns.items()}
    row_bytes = max(1, sum(map(len, lines)) // len(lines))
    batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))
    many = _columns(tf, description, [rows[i % len(rows)] for i in range(batch_rows)])
    single = _seconds(lambda: by_column(**one), _SINGLE_CALLS)
    batch = _seconds(lambda: by_column(**many), _BATCH_CALLS)
    return {
        "rows": len(rows),
        "load_seconds": load_seconds,
        "latency_ms": statistics.median(single) * 1e3,
        "latency_p99_ms": sorted(single)[math.ceil(0.99 * len(single)) - 1] * 1e3,
        "batch_ms": statistics.median(batch) * 1e3,
        "batch_rows": batch_rows,
        "tensorflow": tf.__version__,
        "predictions": [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in answers["prediction"]],
    }


def _bytes_or_object(value: dict[str, Any]) -> Any:
    """Returns the bytes of `{"b64": ...}`, the encoding of text that is not UTF-8; other objects are unchanged."""
    return base64.b64decode(value["b64"]) if set(value) == {"b64"} and isinstance(value["b64"], str) else value


def _columns(tf: Any, description: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    tensors = {}
    for column in description["columns"]:
        values = _values(column, [row.get(column["name"]) for row in rows])
        tensors[column["key"]] = tf.constant(values, tf.string if column["type"] == "string" else tf.float32)
    return tensors


def _values(column: Mapping[str, Any], cells: list[Any]) -> list[Any]:
    """Returns a column with placeholders for missing values, and with lists padded to the length of the longest."""
    absent = "" if column["type"] == "string" else math.nan
    if column.get("many"):
        longest = max(len(cell or ()) for cell in cells)
        filled = [[*(cell or ()), *[None] * (longest - len(cell or ()))] for cell in cells]
        return [[absent if value is None else value for value in cell] for cell in filled]
    none = [absent] * column["width"] if column["type"] == "vector" else absent
    return [none if cell is None else cell for cell in cells]


def _example(tf: Any, description: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    features = {}
    for column in description["columns"]:
        value = row.get(column["name"])
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        if column["type"] == "string":
            texts = [v if isinstance(v, bytes) else (v or "").encode() for v in values]
            features[column["name"]] = tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
        else:
            numbers = [math.nan if v is None else v for v in values]
            features[column["name"]] = tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _answers(outputs: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: value.numpy().tolist() for name, value in outputs.items()}


def _check_answers(answers: Mapping[str, list[Any]], rows: int) -> None:
    for name in ("scores", "prediction"):
        if name not in answers:
            raise ValueError(f"the response lacks {name!r}; it has {sorted(answers)}")
    for name, values in answers.items():
        if len(values) != rows:
            raise ValueError(f"{rows} rows were sent, {name!r} has {len(values)} outputs")
        if not all(math.isfinite(number) for number in _numbers(values)):
            raise ValueError(f"{name!r} is not finite: {values}")


def _check_equal(left: Mapping[str, list[Any]], right: Mapping[str, list[Any]]) -> None:
    for name, values in left.items():
        pairs = zip(_numbers(values), _numbers(right[name]), strict=True)
        if any(abs(a - b) > _TOLERANCE * max(1.0, abs(a)) for a, b in pairs):
            raise ValueError(f"serving_raw and serving_default differ in {name!r}: {values} and {right[name]}")


def _numbers(values: Any) -> list[float]:
    if isinstance(values, list):
        return [number for value in values for number in _numbers(value)]
    return [values] if isinstance(values, int | float) else []


def _seconds(call: Callable[[], Any], times: int) -> list[float]:
    """Returns the seconds of at most `times` calls, after one that is not measured."""
    call()
    seconds: list[float] = []
    while len(seconds) < times and sum(seconds) < _ENOUGH_SECONDS:
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
