"""Writes a model for serving: a SavedModel that needs only TensorFlow, and the files that its callers need.

saved_model.pb, variables/, assets/           the signatures of `signatures.py`, with vocabularies
assets.extra/fullpass.json                    task, classes, raw columns and keys, how data is read, versions, lineage,
                                              checksums of all other files
assets.extra/network.keras                    the network alone, of layers of Keras, unless fullpass.json says why not
assets.extra/weights.json                     the meaning of the rows of its weights, for a warm start from it
assets.extra/stable_ids/                      since when tokens of vocabularies with stable ids are retired
assets.extra/requests.jsonl                   a few rows of raw columns, one JSON object each
assets.extra/request.json                     the same rows as the body of a POST to TF Serving's `:predict`
assets.extra/tf_serving_warmup_requests       the same rows as calls that TF Serving makes before it serves
"""

import importlib.metadata
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from fullpass.base import state_file
from fullpass.preprocessing.columns.column_keys import column_keys
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.list_text import list_text
from fullpass.trainer.export.export_files import (
    DESCRIPTION,
    EXTRA,
    FILES,
    LOOKUPS,
    NETWORK,
    SERVING_DEFAULT,
    SERVING_RAW,
    listed_files,
)
from fullpass.trainer.export.run_provenance import read_run_facts
from fullpass.trainer.export.sample_requests import request_json, rest_body, to_columns, to_row, warmup_log
from fullpass.trainer.export.signatures import Served, TracedExport, feature_keys
from fullpass.trainer.input.raw_tensors import DTYPES
from fullpass.trainer.models.model_inputs import apply_model
from fullpass.trainer.models.weight_semantics import Network

Portable = tuple[keras.Model, Mapping[str, tf.Tensor]]
"""A network of layers of Keras alone, and rows by input name on which it is compared with the network."""
_SAME = 1e-4
"""The largest difference of logits between a network and its file, as a share of the largest logit."""
_VERSIONS_OF = ("fullpass", "tensorflow", "keras", "tensorflow-transform")


def export_model(
    traced: TracedExport,
    directory: str,
    *,
    name: str,
    source: Mapping[str, Any],
    samples: Sequence[bytes],
    portable: Portable | str = "it was not asked for.",
    facts: Mapping[str, Any] = MappingProxyType({}),
    extras: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes the export under a temporary name and renames it, so that `directory` is never incomplete.

    Args:
        directory: The path of the export, which must not exist.
        portable: The file of the network, or why there is none.
        source: How `fullpass predict` reads raw data, without paths, addresses and secrets.
        facts: Further entries of `fullpass.json`.
        extras: The contents of further files of `assets.extra`, by path.
    """
    pending = f"{directory.rstrip('/')}.tmp"
    if tf.io.gfile.exists(pending):
        tf.io.gfile.rmtree(pending)
    tf.saved_model.save(traced.module, pending, signatures=traced.signatures)
    tf.io.gfile.makedirs(f"{pending}/{EXTRA}")
    for path, content in extras.items():
        tf.io.gfile.makedirs(f"{pending}/{EXTRA}/{path}".rpartition("/")[0])
        _write(f"{pending}/{EXTRA}/{path}", content)
    served = traced.served
    _write_requests(f"{pending}/{EXTRA}", served.columns, samples)
    network = _write_network(served.network, portable, pending)
    described = _describe(served, name, source) | dict(facts) | {"network": network, FILES: listed_files(pending)}
    _write(f"{pending}/{DESCRIPTION}", state_file.encode(described, indent=2).decode())
    tf.io.gfile.rename(pending, directory)


def _describe(served: Served, name: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of `fullpass.json`: the inputs and outputs of the model, and its run."""
    keys = column_keys(tuple(served.columns))
    columns = [{"name": c.name, "key": keys[c.name], **_described(c)} for c in served.columns.values()]
    return {
        "name": name,
        "task": served.label.task,
        "label": served.label.column,
        **({"separator": list_text(served.label.separator).joined_by} if served.label.task == "multilabel" else {}),
        "classes": list(served.names),
        "levels": list(served.levels),
        "columns": columns,
        "features": [{"name": name, "key": key} for name, key in feature_keys(served.network.model).items()],
        "source": dict(source),
        **({LOOKUPS: {table.name: table.described() for table in served.tables}} if served.tables else {}),
        "versions": {package: importlib.metadata.version(package) for package in _VERSIONS_OF},
        "lineage": read_run_facts(),
    }


def _described(column: RawColumn) -> dict[str, Any]:
    """Returns the fields of a raw column except its name and the fields with default values."""
    defaults = asdict(RawColumn(column.name, column.type))
    non_default = {field: value for field, value in asdict(column).items() if value != defaults[field]}
    return {"type": column.type, **({"width": column.width} if column.type == "vector" else {}), **non_default}


def _write_network(network: Network, portable: Portable | str, folder: str) -> dict[str, Any]:
    """Writes the network as a file of Keras; returns its largest difference from the model, or why there is none."""
    if isinstance(portable, str):
        return {"absent": portable}
    model, features = portable
    expected = network.logits(features)
    difference = float(tf.reduce_max(tf.abs(apply_model(model, features, training=False) - expected)))
    scale = max(1.0, float(tf.reduce_max(tf.abs(expected))))
    if not difference <= _SAME * scale:
        return {"absent": f"in float32 its logits differ from those of the model by up to {difference:g}."}
    with tempfile.TemporaryDirectory() as local:
        model.save(f"{local}/network.keras")
        tf.io.gfile.copy(f"{local}/network.keras", f"{folder}/{NETWORK}")
    return {"largest_difference": difference}


def _write_requests(folder: str, columns: Mapping[str, RawColumn], samples: Sequence[bytes]) -> None:
    keys = column_keys(tuple(columns))
    rows = [to_row(example, columns) for example in samples]
    _write(f"{folder}/requests.jsonl", "".join(request_json(row) + "\n" for row in rows))
    _write(f"{folder}/request.json", rest_body(rows, columns, keys, SERVING_RAW))
    values = to_columns(rows, columns)
    raw = {keys[name]: tf.constant(values[name], DTYPES[column.type]) for name, column in columns.items()}
    with tf.io.TFRecordWriter(f"{folder}/tf_serving_warmup_requests") as writer:
        writer.write(warmup_log(SERVING_DEFAULT, {"examples": tf.constant(list(samples))}))
        writer.write(warmup_log(SERVING_RAW, raw))


def _write(path: str, text: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)
