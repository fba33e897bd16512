"""Initializes weights from an earlier model, matched by name of layer, feature and token.

The file `assets.extra/weights.json` of an export records the meaning of the rows of its weights
(trainer/models/weight_semantics.py). The values are in its variables, the tokens in its assets. So a warm start needs
only an export.

The state of the optimizer and of random layers is not restored: both begin as in a cold start, so that a warm
start depends on the data, the configuration and the export alone.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.ids import Embedding
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.export.export_files import EXTRA, verify_export
from fullpass.trainer.internals.tf_internals import variable_key
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.model_inputs import embedding_width, encodes_one_hot
from fullpass.trainer.models.tasks import HEAD
from fullpass.trainer.models.weight_semantics import (
    TOKEN,
    Label,
    Network,
    Segment,
    Weight,
    encoded_features,
    labels_of,
    weights_of,
)

FILE = "weights.json"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WeightOrigin:
    """How one weight was initialized.

    Attributes:
        outcome: taken, partly or anew.
        why: The reason; empty if the whole weight was taken.
    """

    weight: str
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class BaseExport:
    """An export from which a warm start takes weights.

    Attributes:
        features: The meaning of the concatenated feature columns.
        encodings: one_hot or the width of the embedding, by feature with ids.
        head: Scale, offset and class names of the last layer.
        digest: A digest of everything that is taken from the export.
    """

    folder: str
    weights: Mapping[str, Weight]
    features: Sequence[Segment]
    encodings: Mapping[str, str | int]
    head: Mapping[str, Any]
    digest: str

    def value(self, weight: Weight) -> np.ndarray:
        """Returns the value of a weight."""
        reader = tf.train.load_checkpoint(f"{self.folder}/variables/variables")
        return reader.get_tensor(variable_key(f"weights/{weight.variable}"))


def describe_weights(network: Network, model: keras.Model | None = None) -> dict[str, Any]:
    """Returns the content of `weights.json` for a network, or for one that is a part of an exported model."""
    ids = [item for item in network.inputs.values() if item.output.kind == "ids"]
    head = network.model.get_layer(HEAD)
    return {
        "weights": [vars(weight) for weight in weights_of(network, model)],
        "features": encoded_features(network),
        "encodings": {item.name: "one_hot" if encodes_one_hot(item) else embedding_width(item) for item in ids},
        HEAD: {"scale": float(head.scale), "offset": head.offset.tolist(), "classes": list(network.classes)},
    }


def read_base(folder: str) -> BaseExport:
    """Reads an export for a warm start.

    Raises:
        UserError: The folder is not an export, or the export is damaged, has no `weights.json` or
            no network.
    """
    path = f"{folder}/{EXTRA}/{FILE}"
    if not tf.io.gfile.exists(path):
        what = "was exported by a version that did not record the meaning of its weights"
        if not tf.io.gfile.exists(f"{folder}/saved_model.pb"):
            what = "is not an exported model: it contains no saved_model.pb"
        raise UserError(f"training.warm_start: {folder} {what}. Train once with warm_start: none.")
    verify_export(folder)
    with tf.io.gfile.GFile(path) as file:
        text = file.read()
    # The index of the variables contains a checksum of each variable.
    with tf.io.gfile.GFile(f"{folder}/variables/variables.index", "rb") as file:
        digest = hashlib.sha256(text.encode() + file.read()).hexdigest()
    described = json.loads(text)
    if "weights" not in described:
        what = "boosted trees" if described.get("trees") else "exact linear regression"
        raise UserError(
            f"training.warm_start: {folder} is a model of {what}, which has no weights for a warm start. "
            "Train once with warm_start: none."
        )
    weights = [Weight(**weight | {"shape": tuple(weight["shape"])}) for weight in described["weights"]]
    by_name = {weight.name: weight for weight in weights}
    return BaseExport(folder, by_name, described["features"], described["encodings"], described[HEAD], digest)


def find_base(training: TrainingConfig, blessed: str | None) -> BaseExport | None:
    """Returns the export that the weights are initialized from, or None for a cold start.

    Args:
        blessed: The folder of the last blessed model, None without one.

    Raises:
        UserError: The folder in `warm_start` cannot be used. A blessed model that cannot be used does not raise but
            leads to a cold start.
    """
    if training.warm_start == "none":
        return None
    if training.warm_start != "blessed":
        return read_base(training.warm_start)
    if not blessed:
        _LOG.info("warm start: no earlier model is blessed; this is a cold start")
        return None
    try:
        return read_base(blessed)
    except UserError as error:
        _LOG.warning("warm start: the blessed model cannot be used; this is a cold start. %s", error)
        return None


def keep_encodings(outputs: Sequence[Output], base: BaseExport | None) -> tuple[Output, ...]:
    """Returns transformed features with the encoding `auto` resolved as in the base.

    Otherwise a growing vocabulary would change the width of its embedding, or switch from one_hot to an embedding, and
    its weights could not be reused.
    """
    if base is None:
        return tuple(outputs)
    return tuple(
        replace(o, encoding=_kept(o, base.encodings[o.name])) if o.name in base.encodings else o for o in outputs
    )


def _kept(output: Output, before: str | int) -> Any:
    given = output.encoding
    if given == "auto":
        return "one_hot" if before == "one_hot" else Embedding(embedding=before)
    if isinstance(given, Embedding) and given.embedding == "auto" and before != "one_hot":
        return given.model_copy(update={"embedding": before})
    return given


def initialize_from(base: BaseExport, network: Network, transform_graph: str) -> list[WeightOrigin]:
    """Copies the matching weights of a base into a new network; all others stay as they were initialized.

    Rows are matched by their meaning. The row of a token that the base does not contain is set to the mean of the rows
    of the same feature's tokens that it contains.

    Args:
        network: The newly built network; its head is changed too.
        transform_graph: The folder of the saved transform graph, whose assets hold the vocabularies.

    Returns:
        How each weight was initialized.
    """
    _take_head(network.model.get_layer(HEAD), base, network.classes)
    labels = labels_of(encoded_features(network), transform_graph)
    moved = () in labels or labels != labels_of(base.features, base.folder)
    found = []
    for weight in weights_of(network):
        before = base.weights.get(weight.name)
        reason = _unmatched(weight, before)
        if before is not None and not reason and moved and not weight.stated:
            reason = "the ids of a feature moved, and the layer has no declared axes (see `declare_axes`)"
        if before is None or reason:
            found.append(WeightOrigin(weight.name, "anew", reason))
            continue
        variable = network.model.variables[weight.variable]
        value, origin = _transferred(weight, variable.numpy(), transform_graph, before, base)
        variable.assign(value)
        found.append(origin)
    for origin in found:
        _LOG.info("warm start: %s %s%s", origin.weight, origin.outcome, f": {origin.why}" if origin.why else "")
    return found


def _unmatched(weight: Weight, before: Weight | None) -> str:
    """Returns why a weight cannot be taken: the base does not have it, or has it in another shape; "" if it can."""
    if before is None:
        return "the earlier model has no such weight"
    sides = zip(weight.shape, before.shape, weight.axes, before.axes, strict=False)
    same = len(weight.shape) == len(before.shape) and all(
        (axis is None) == (axis_before is None) and (axis is not None or n == n_before)
        for n, n_before, axis, axis_before in sides
    )
    return "" if same else f"its shape was {_shape(before.shape)} and is {_shape(weight.shape)}"


def _take_head(head: Affine, base: BaseExport, classes: Sequence[str]) -> None:
    """Copies scale and offset between logits and labels, which define the units of the base's weights."""
    before = dict(zip(base.head["classes"] or [""], base.head["offset"], strict=True))
    named = classes or [""]
    if not any(name in before for name in named):
        return
    offset = [before.get(n, o) for n, o in zip(named, head.offset, strict=True)]
    head.correct(base.head["scale"], offset)


def _transferred(
    weight: Weight, value: np.ndarray, transform_graph: str, before: Weight, base: BaseExport
) -> tuple[np.ndarray, WeightOrigin]:
    """Returns the value of a weight with the matching rows of the base, and how it was initialized."""
    labels = [None if axis is None else labels_of(axis, transform_graph) for axis in weight.axes]
    pairs = [
        _pairs(rows, range(n) if axis is None else labels_of(axis, base.folder))
        for rows, axis, n in zip(labels, before.axes, before.shape, strict=True)
    ]
    if not all(map(len, pairs)):
        return value, WeightOrigin(
            weight.name, "anew", "none of its rows has the same meaning as a row of the earlier model"
        )
    here, there = ([indices[:, side] for indices in pairs] for side in (0, 1))
    value = np.array(value)  # NumPy returns no array for a scalar weight
    value[np.ix_(*here)] = base.value(before)[np.ix_(*there)]
    for axis, rows in enumerate(labels):
        if rows is not None:
            _fill_new_tokens(value, axis, rows, set(here[axis].tolist()))
    parts = [
        f"{len(indices):,} of {n:,} {'columns' if axis else 'rows'} are in the earlier model"
        for axis, (indices, n) in enumerate(zip(pairs, weight.shape, strict=True))
        if len(indices) < n
    ]
    return value, WeightOrigin(weight.name, "partly" if parts else "taken", ", ".join(parts))


def _pairs(rows: Sequence[Label] | None, before: Sequence[Any]) -> np.ndarray:
    """Returns pairs of indices with equal meaning, int64 [n, 2]: in the new axis and in the axis of the base."""
    if rows is None:
        return np.repeat(np.arange(len(before))[:, np.newaxis], 2, axis=1)
    index = {label: i for i, label in enumerate(before) if label}
    return np.array([(i, index[label]) for i, label in enumerate(rows) if label in index], np.int64).reshape(-1, 2)


def _fill_new_tokens(value: np.ndarray, axis: int, labels: Sequence[Label], known: set[int]) -> None:
    """Sets the rows of tokens that the base does not contain to the mean of its known rows per feature, in place."""
    tokens: dict[Any, tuple[list[int], list[int]]] = {}
    for row, label in enumerate(labels):
        if len(label) == 3 and label[1] == TOKEN:
            tokens.setdefault(label[0], ([], []))[row not in known].append(row)
    rows = np.moveaxis(value, axis, 0)
    for old, new in tokens.values():
        if old and new:
            rows[new] = rows[old].mean(axis=0)


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def warm_start_record(
    training: TrainingConfig, base: BaseExport | None, origins: Sequence[WeightOrigin]
) -> dict[str, Any]:
    """Returns the entry `warm_start` of training.json: how each weight was initialized."""
    outcomes = [origin.outcome for origin in origins]
    return {
        "asked": training.warm_start,
        "from": base and base.folder,
        **{outcome: outcomes.count(outcome) for outcome in ("taken", "partly", "anew")},
        "weights": [vars(origin) for origin in origins],
    }
