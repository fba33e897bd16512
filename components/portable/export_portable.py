"""Writes a model for LiteRT or ONNX Runtime, and compares it with its SavedModel row by row.

model.tflite or model.onnx   the network and the answer of its task, from transformed features
preprocessing.json           the steps from raw columns to these features, their constants and tables; the classes
preprocess.py                what computes the steps with NumPy alone: the modules of `steps` and `preprocess` in one
"""

import inspect
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.portable import preprocess
from fullpass.components.portable.read_graph import GraphReader
from fullpass.components.portable.steps import array_steps, elements, farmhash, number_steps, text_steps
from fullpass.components.portable.targets import Portable
from fullpass.components.predict.exported import Exported
from fullpass.preprocessing.apply.transform_graph import concrete_function
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.tf_internals import frozen
from fullpass.trainer.export.export_files import NETWORK, SERVING_DEFAULT, read_description
from fullpass.trainer.input.raw_tensors import to_request
from fullpass.trainer.models.tasks import probabilities_of

BOUND = 1e-4
"""The largest difference that is accepted: of a probability, or of a prediction in standard deviations."""
OUTPUT = "scores"
_FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
_EXTRA = "pip install 'fullpass[onnx]'"
_TOGETHER = 512
"""Rows that are compared in one call; the NumPy side keeps the arrays of all its steps meanwhile."""
_TIMED = 100
"""Calls of which the median time is told."""
Columns = Mapping[str, np.ndarray]
"""Raw column -> dense values, as in `InputBatch.inputs`."""
Run = Callable[[Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class PortableComparison:
    """The comparison of a written model with its SavedModel.

    Attributes:
        largest: The largest difference, in the unit of `BOUND`.
        changed: The number of rows with another prediction.
        milliseconds: The time per row, when rows come one by one: of the preprocessing, and of the network.
    """

    rows: int
    largest: float
    changed: int
    milliseconds: tuple[float, float]
    bytes: int


def export_portable(model: Exported, to: Portable, folder: Path, rows: Iterable[Columns]) -> PortableComparison:
    """Writes the files of a model into a new folder, which appears only if they answer like the SavedModel.

    Args:
        model: A loaded export.
        rows: Batches of raw columns, on which the two are compared.

    Raises:
        UserError: The network, a feature or an operation cannot be written, or the answers differ.
    """
    if folder.exists():
        raise UserError(f"{folder} already exists. Name another folder with --out, or remove it.")
    description: dict[str, Any] = dict(read_description(str(model.directory)) or {})
    if tables := description.get("lookups"):
        raise UserError(
            f"{model.directory}: the model looks columns up in {', '.join(tables)}, and files contain no tables. Train "
            "it with `serve: given` (data.joins)."
        )
    function, keys = _network(model, description)
    pending = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(pending, ignore_errors=True)
    pending.mkdir(parents=True)
    try:
        _write_preprocessing(model, description, keys, pending)
        path = pending / _FILES[to]
        run = WRITERS[to](function, keys, path)
        found = _compare(model, description, preprocess.Preprocessing(pending / "preprocessing.json"), run, rows, path)
        os.replace(pending, folder)
    finally:
        shutil.rmtree(pending, ignore_errors=True)
    return found


def _network(model: Exported, description: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Returns the network with the answer of its task as a frozen function, and the keys of its Keras inputs."""
    network = description["network"]
    if "absent" in network:
        raise UserError(f"{model.directory}: the network cannot be written: {network['absent']}")
    loaded = keras.models.load_model(f"{model.directory}/{NETWORK}")
    keys = {feature["name"]: feature["key"] for feature in description["features"]}
    task = description["task"]

    def scores(*values: tf.Tensor) -> tf.Tensor:
        logits = loaded(dict(zip(keys, values, strict=True)), training=False)
        return tf.identity(logits if task == "regression" else probabilities_of(task, logits), name=OUTPUT)

    by_name = {tensor.name: tensor for tensor in loaded.inputs}
    specs = [tf.TensorSpec(by_name[n].shape, by_name[n].dtype, name=key) for n, key in keys.items()]
    concrete = tf.function(scores, autograph=False, input_signature=specs).get_concrete_function()
    return frozen(concrete), keys


def _write_preprocessing(
    model: Exported, description: Mapping[str, Any], keys: Mapping[str, str], folder: Path
) -> None:
    loaded = tf.saved_model.load(str(model.directory))  # holds the tables while they are read
    reader = GraphReader(concrete_function(loaded.transform))
    inputs = reader.inputs(keys)
    steps = reader.used(inputs.values())
    fed = {name for _, read, _, _ in steps for name in read}
    separator = description.get("separator") if description["task"] == "multilabel" else None
    content = {
        "columns": {n: {"type": c.type, "many": c.many, "decimal": c.decimal} for n, c in model.columns.items()},
        "feeds": {n: feed for n, feed in reader.feeds.items() if n in model.columns and fed & set(feed)},
        "inputs": inputs,
        "answer": {
            "classes": list(model.classes),
            "levels": [f"{level:g}" for level in model.levels],
            "threshold": description.get("decision", {}).get("threshold"),
            "separator": separator,
        },
        "tables": reader.tables,
        "steps": steps,
    }
    (folder / "preprocessing.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "preprocess.py").write_text(standalone_source(), encoding="utf-8")


def standalone_source() -> str:
    """Returns the source of `preprocess.py` behind that of the modules it imports: one file that needs NumPy alone."""
    parts = [
        inspect.getsource(module) for module in (elements, farmhash, number_steps, array_steps, text_steps, preprocess)
    ]
    return "\n\n".join(
        [f'"""{preprocess.__doc__}"""', *(re.sub(r"(?m)^from fullpass\..*\n", "", part) for part in parts)]
    )


def _litert(function: Any, keys: Mapping[str, str], path: Path) -> Run:
    """Writes a network for LiteRT, with a signature, and returns a function that runs it."""
    specs = {key: tf.TensorSpec(one.shape, one.dtype) for key, one in zip(keys.values(), function.inputs, strict=True)}
    called = tf.function(lambda **inputs: {OUTPUT: function(*[inputs[key] for key in specs])[0]}, autograph=False)
    with TemporaryDirectory() as folder:
        tf.saved_model.save(tf.Module(), folder, {SERVING_DEFAULT: called.get_concrete_function(**specs)})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[SERVING_DEFAULT])
        path.write_bytes(converter.convert())
    run = tf.lite.Interpreter(model_path=str(path)).get_signature_runner()
    read = run.get_input_details()
    return lambda inputs: run(**{key: inputs[key] for key in read})[OUTPUT]


def _onnx(function: Any, keys: Mapping[str, str], path: Path) -> Run:
    """Writes a network as ONNX, and returns a function that runs it."""
    try:
        import onnxruntime

        from fullpass.components.portable.write_onnx import onnx_model
    except ImportError as error:
        raise UserError(f"--to onnx needs packages that are not installed: {error}. Install them: {_EXTRA}.") from error
    path.write_bytes(onnx_model(function, list(keys.values()), OUTPUT).SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    read = [one.name for one in session.get_inputs()]

    def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        (scores,) = session.run([OUTPUT], {name: inputs[name] for name in read})
        return scores

    return run


WRITERS: Mapping[str, Callable[[Any, Mapping[str, str], Path], Run]] = {"litert": _litert, "onnx": _onnx}
"""Format -> function that writes a frozen function with one output, and returns one that runs what it wrote."""


def _compare(
    model: Exported,
    description: Mapping[str, Any],
    preprocessing: preprocess.Preprocessing,
    run: Run,
    rows: Iterable[Columns],
    path: Path,
) -> PortableComparison:
    regression = description["task"] == "regression"
    left: list[np.ndarray] = []
    right: list[np.ndarray] = []
    changed = 0
    one: list[dict[str, Any]] = []
    for batch in _batches(rows):
        plain = _rows(batch, model.columns)
        one = one or plain[:1]
        scores = run(preprocessing.features(plain))
        answers = model.predict(**to_request(batch, model.columns, model.keys))
        expected = answers["probabilities"].numpy() if not regression else _regression(answers)
        left.append(scores.astype(np.float64))
        right.append(expected.astype(np.float64))
        predicted = [answer["prediction"] for answer in preprocessing.answers(scores)]
        if not regression:
            changed += sum(a.encode() != b for a, b in zip(predicted, answers["prediction"].numpy(), strict=True))
    if not left:
        raise UserError("there are no rows to compare the written model with its SavedModel. Give some with --rows.")
    a, b = np.concatenate(left), np.concatenate(right)
    unit = float(b[:, 0].std() or np.abs(b[:, 0]).max() or 1.0) if regression else 1.0
    difference = np.abs(a - b) / unit
    largest = float(np.nan_to_num(difference, nan=np.inf).max())
    if largest > BOUND:
        raise UserError(
            f"{path.name} does not answer like the SavedModel: {int((~(difference <= BOUND)).any(axis=1).sum()):,} of "
            f"{len(a):,} rows differ by more than {BOUND:g}, by up to {largest:g}. Nothing was written. Serve the "
            "SavedModel, or train with training.mixed_precision: false if it was trained in float16."
        )
    features = preprocessing.features(one)
    times = _milliseconds(lambda: preprocessing.features(one)), _milliseconds(lambda: run(features))
    return PortableComparison(len(a), largest, changed, times, path.stat().st_size)


def _regression(answers: Mapping[str, tf.Tensor]) -> np.ndarray:
    parts = [answers["scores"].numpy()[:, None], *([answers["quantiles"].numpy()] if "quantiles" in answers else [])]
    return np.concatenate(parts, axis=1)


def _batches(rows: Iterable[Columns]) -> Iterable[Columns]:
    """Yields the rows in batches that both sides process quickly."""
    for batch in rows:
        total = max((len(values) for values in batch.values()), default=0)
        for at in range(0, total, _TOGETHER):
            yield {name: values[at : at + _TOGETHER] for name, values in batch.items()}


def _rows(batch: Columns, columns: Mapping[str, RawColumn]) -> list[dict[str, Any]]:
    total = max(len(values) for values in batch.values())
    cells = {name: values.tolist() for name, values in batch.items() if name in columns and len(values)}
    return [{name: values[row] for name, values in cells.items()} for row in range(total)]


def _milliseconds(call: Callable[[], Any]) -> float:
    """Returns the median time of a call."""
    call()
    found = []
    for _ in range(_TIMED):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return float(np.median(found)) * 1e3
