"""What the rows and columns of a model's weights stand for: which id, which number, which class.

Weights go from one model to the next by these names, not by position. A weight is named by its layer and its place in
it. Each of its axes is a list of segments, or None where it stands for nothing but itself, as the units of a hidden
layer do. A segment says what its rows are: the ids of a vocabulary or a hash, or so many plain numbers.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from preprocessing.config import PreprocessingConfig
from preprocessing.feature import CategoryFeature, Cross, Hash, TextFeature, Vocabulary
from preprocessing.outputs import vocabulary_name
from preprocessing.stable_ids import read_vocabulary
from trainer.inputs import ModelInput, embedding_width, encodes_one_hot, table_name

Segment = dict[str, Any]
"""As JSON. of: what the rows belong to. rows: how many. And what they mean: `numbers`; `embedding`; `vocabulary`, the
name of its file, or `tokens`, with `oov`; `hash` and `key`; `values`; `places`. Nothing of these: nobody knows."""

Axes = list[list[Segment] | None]
Label = tuple[Hashable, ...]
TOKEN = "token"
"""Second in the label of a row that stands for a token."""


@dataclass(frozen=True)
class Network:
    """A network, and what is known of its sides.

    Attributes:
        model: of transformed features to logits, its head included.
        inputs: of the model, in its order.
        config: says what the ids of its features mean.
        classes: one per column of the logits; empty where there is one column.
        own: whether the architecture is the user's, of whose layers only the embeddings made by `encode` are known.
    """

    model: keras.Model
    inputs: Mapping[str, ModelInput]
    config: PreprocessingConfig
    classes: Sequence[str]
    own: bool = False


@dataclass(frozen=True)
class Weight:
    """A weight of a model. variable: its place in `model.variables`. axes: what its rows and columns stand for."""

    name: str
    variable: int
    shape: tuple[int, ...]
    axes: Axes


def weights_of(network: Network) -> list[Weight]:
    """Returns the weights of a network in its order; states of random layers are none."""
    meaning = _Meaning(network)
    places = {id(variable): place for place, variable in enumerate(network.model.variables)}
    counts: dict[str, int] = {}
    found = []
    for layer in network.model.layers:
        name = meaning.layer_name(layer, counts)
        names = [weight.name for weight in layer.weights]
        for i, weight in enumerate(layer.weights):
            part = weight.name if names.count(weight.name) == 1 else f"{weight.name} {i}"
            axes = meaning.axes(layer.name, weight.name, tuple(weight.shape))
            found.append(Weight(f"{name}/{part}", places[id(weight)], tuple(weight.shape), axes))
    return found


def encoded_features(network: Network) -> list[Segment]:
    """Returns what the columns of all features, encoded and side by side, stand for."""
    return _Meaning(network).features


class _Meaning:
    """What the axes of the architectures of `trainer.models` stand for, by the names of their layers."""

    def __init__(self, network: Network):
        items = list(network.inputs.values())
        ids = {item.name: _ids(item, network.config) for item in items if item.output.kind == "ids"}
        embedded = [item for item in items if item.name in ids and not encodes_one_hot(item)]
        first = {table_name(item): item.name for item in reversed(embedded)}
        tables = dict.fromkeys(map(table_name, embedded))
        self.features = features = [_encoded(item, ids) for item in items]
        logits = [_given("classes", network.classes)] if network.classes else [_numbers("logit", 1)]
        hidden = _numbers("hidden", _last_hidden(network.model))
        multi = [item.name for item in items if item.name in ids and item.output.multi]
        single = [ids[item.name] for item in items if item.name in ids and not item.output.multi]
        numbers = [_numbers(item.name, item.width) for item in items if item.output.kind == "dense"]
        self._rows = {f"table_{i}": ids[first[table]] | {"of": table} for i, table in enumerate(tables)}
        self._rows |= {f"ids_{i}": ids[name] for i, name in enumerate(multi)}
        known: dict[str, Axes] = {
            "ids/table": [single, logits],
            "numbers/kernel": [numbers, logits],
            "bias/bias": [logits],
            "hidden_0/kernel": [features, None],
            "logits/kernel": [None, logits],
            "logits/bias": [logits],
            "cross/kernel": [features, features],
            "cross_low_rank/kernel": [None, features],
            "cross_low_rank/down": [features, None],
            "cross/bias": [features],
            "cross_low_rank/bias": [features],
            "logits_of_both/kernel": [[*features, hidden], logits],
            "logits_of_both/bias": [logits],
        }
        self._axes = {} if network.own else known
        self._axes |= {f"{name}/embeddings": [[rows], None] for name, rows in self._rows.items()}
        self._axes |= {f"ids_{i}/embeddings": [[ids[name]], logits] for i, name in enumerate(multi)}

    def layer_name(self, layer: keras.layers.Layer, counts: dict[str, int]) -> str:
        """Returns a name that is the same in the next model, though it has other features or is not the first built.

        Names that Keras makes up count per process: of such a layer it is its class and its place among those.
        """
        if layer.name in self._rows:
            kind = "embedding" if layer.name.startswith("table") else "ids"
            return f"{kind} of {self._rows[layer.name]['of']}"
        made_up = re.sub(r"(?<!^)(?=[A-Z])", "_", type(layer).__name__).lower()
        if not re.fullmatch(rf"{made_up}(_\d+)?", layer.name.replace("__", "_")):
            return layer.name
        counts[made_up] = counts.get(made_up, -1) + 1
        return f"{made_up} {counts[made_up]}"

    def axes(self, layer: str, weight: str, shape: tuple[int, ...]) -> Axes:
        """Returns what the axes of a weight stand for."""
        kind = re.sub(r"^(cross|cross_low_rank)_\d+$", r"\1", layer)
        axes = self._axes.get(f"{kind}/{weight}", [None] * len(shape))
        return [
            axis if axis and sum(s["rows"] for s in axis) == n else None for axis, n in zip(axes, shape, strict=True)
        ]


def _last_hidden(model: keras.Model) -> int:
    return next((layer.units for layer in reversed(model.layers) if re.fullmatch(r"hidden_\d+", layer.name)), 0)


def _encoded(item: ModelInput, ids: Mapping[str, Segment]) -> Segment:
    if item.output.kind == "dense":
        return _numbers(item.name, item.width)
    if encodes_one_hot(item):
        return ids[item.name]
    width = embedding_width(item)
    return {"of": item.name, "rows": width, "embedding": width}


def _numbers(of: str, rows: int) -> Segment:
    return {"of": of, "rows": rows, "numbers": True}


def _given(of: str, tokens: Sequence[str]) -> Segment:
    return {"of": of, "rows": len(tokens), "tokens": list(tokens), "oov": None}


def _ids(item: ModelInput, config: PreprocessingConfig) -> Segment:
    """Returns what the ids of a feature mean."""
    feature = item.output.feature
    crosses: dict[str, Any] = {cross.feature_name: cross for cross in config.crosses}
    declared = config.features.get(feature) or crosses.get(feature)
    segment: Segment = {"of": item.name, "rows": item.size}
    if config.function is not None or declared is None:
        return segment
    vocabulary = getattr(declared, "vocabulary", None)
    hashed = getattr(declared, "hash", None)
    if isinstance(declared, Cross) and vocabulary is None:
        hashed = Hash(buckets=declared.hash_buckets or 1)
    if isinstance(vocabulary, Vocabulary):
        return segment | _vocabulary(vocabulary, feature)
    if isinstance(hashed, Hash):
        return segment | {"hash": hashed.buckets, "key": hashed.key}
    if isinstance(declared, CategoryFeature | TextFeature):
        return segment | {"values": True}
    return segment | {"places": True}


def _vocabulary(vocabulary: Vocabulary, feature: str) -> Segment:
    oov = vocabulary.oov_buckets
    if vocabulary.tokens is not None:
        return {"tokens": list(vocabulary.tokens), "oov": oov}
    if vocabulary.file is not None:
        with tf.io.gfile.GFile(vocabulary.file) as file:
            return {"tokens": file.read().splitlines(), "oov": oov}
    return {"vocabulary": vocabulary_name(feature), "oov": oov}


def labels_of(axis: Sequence[Segment], saved_model: str) -> list[Label]:
    """Returns one label per row of an axis, equal for rows that mean the same in two models; () where nobody knows.

    Args:
        axis: its segments.
        saved_model: folder whose `assets` hold the learned vocabularies.
    """
    return [label for segment in axis for label in _labels(segment, saved_model)]


def _labels(segment: Segment, saved_model: str) -> list[Label]:
    of, rows = segment["of"], segment["rows"]
    if "vocabulary" in segment or "tokens" in segment:
        found = _token_labels(segment, saved_model)
        # An empty vocabulary has one row that no token has.
        return found if len(found) == rows else found + [()] if len(found) == rows - 1 else [()] * rows
    if segment.get("values"):
        return [(of, "missing"), (of, "outside"), *((of, "value", i) for i in range(rows - 2))]
    known = [
        (name, repr(segment[name])) for name in ("numbers", "embedding", "hash", "key", "places") if name in segment
    ]
    if not known:
        return [()] * rows
    # So many places, buckets or dimensions: with another number of them, each means something else.
    return [(of, *known, rows, i) for i in range(rows)]


def _token_labels(segment: Segment, saved_model: str) -> list[Label]:
    of, oov = segment["of"], segment["oov"]
    if "tokens" in segment:
        tokens: Sequence[bytes] = [token.encode() for token in segment["tokens"]]
    else:
        tokens = read_vocabulary(saved_model, segment["vocabulary"])
    before: list[Label] = [] if oov is None else [(of, "missing"), *((of, "oov", oov, i) for i in range(oov))]
    return [*before, *((of, TOKEN, token) for token in tokens)]
