"""Resolves what the builders state about weights into the ids, numbers and classes of one trained network.

Weights go from one model to the next by these meanings, not by position. A weight is named by its layer and its name in
it. Each of its axes is a list of segments, or None where an index means nothing beyond the layer. A segment says what
its rows are: the ids of a vocabulary or a hash, or so many plain numbers.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from fullpass.preprocessing.apply.stable_ids import read_vocabulary
from fullpass.preprocessing.apply.vocabulary_file import read_vocabulary_file
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.errors import UserError
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import CategoryFeature, TextFeature
from fullpass.preprocessing.features.ids import Hash, Vocabulary
from fullpass.preprocessing.features.outputs import vocabulary_name
from fullpass.trainer.models.model_inputs import ModelInput, encoded_axis
from fullpass.trainer.models.weight_axes import AxisPart, LayerMeaning, meaning_of

Segment = dict[str, Any]
"""As JSON. of: what the rows belong to. rows: how many. And what they mean: `numbers`; `embedding`; `vocabulary`, the
name of its file, or `tokens`, with `oov`; `hash` and `key`; `values`; `places`. None of these: unknown."""

Axes = list[list[Segment] | None]
Label = tuple[Hashable, ...]
TOKEN = "token"
"""Second in the label of a row that stands for a token."""


@dataclass(frozen=True)
class Network:
    """A network, and what decides the meaning of its weights.

    Attributes:
        model: Maps transformed features to logits, or a regression to predictions, its head included.
        inputs: The inputs of the model, in its order.
        config: Says what the ids of its features mean.
        classes: The names of the columns of the logits; empty where there is one, in the unit of the label.
    """

    model: keras.Model
    inputs: Mapping[str, ModelInput]
    config: PreprocessingConfig
    classes: Sequence[str]


@dataclass(frozen=True)
class Weight:
    """A weight of a model.

    Attributes:
        name: The same in every model that has this weight.
        variable: Its index in `model.variables`.
        shape: Its shape.
        axes: What its rows and columns stand for.
        stated: Whether the builder of its layer stated that; of layers in a user's own function nothing may be known.
    """

    name: str
    variable: int
    shape: tuple[int, ...]
    axes: Axes
    stated: bool = True


def weights_of(network: Network) -> list[Weight]:
    """Returns the weights of a network in its order; the states of random layers are left out."""
    indices = {id(variable): index for index, variable in enumerate(network.model.variables)}
    counts: dict[str, int] = {}
    found = []
    for layer in network.model.layers:
        meaning = meaning_of(layer)
        name = _layer_name(layer, meaning, counts)
        names = [weight.name for weight in layer.weights]
        for i, weight in enumerate(layer.weights):
            part = weight.name if names.count(weight.name) == 1 else f"{weight.name} {i}"
            shape = tuple(weight.shape)
            axes = _axes(network, layer, weight.name, shape)
            found.append(Weight(f"{name}/{part}", indices[id(weight)], shape, axes, meaning is not None))
    return found


def encoded_features(network: Network) -> list[Segment]:
    """Returns what the columns of all features, encoded and side by side, stand for."""
    return [_segment(network, part) for part in encoded_axis(network.inputs)]


def _layer_name(layer: keras.layers.Layer, meaning: LayerMeaning | None, counts: dict[str, int]) -> str:
    """Returns a name that is the same in the next model, though it has other features or is not the first one built.

    Names that Keras makes up count per process: such a layer is named by its class and its index among those.
    """
    if meaning is not None and meaning.name is not None:
        return meaning.name
    made_up = re.sub(r"(?<!^)(?=[A-Z])", "_", type(layer).__name__).lower()
    if not re.fullmatch(rf"{made_up}(_\d+)?", layer.name.replace("__", "_")):
        return layer.name
    counts[made_up] = counts.get(made_up, -1) + 1
    return f"{made_up} {counts[made_up]}"


def _axes(network: Network, layer: keras.layers.Layer, weight: str, shape: tuple[int, ...]) -> Axes:
    meaning = meaning_of(layer)
    if meaning is None or weight not in meaning.axes:
        return [None] * len(shape)
    axes = [None if axis is None else [_segment(network, part) for part in axis] for axis in meaning.axes[weight]]
    stated = tuple(n if axis is None else sum(s["rows"] for s in axis) for axis, n in zip(axes, shape, strict=False))
    if len(axes) != len(shape) or stated != shape:
        raise UserError(
            f"weight {weight!r} of layer {layer.name!r} has the shape {shape}, but a meaning is stated for {stated}. "
            "Correct what `stands_for` is given where the layer is made."
        )
    return axes


def _segment(network: Network, part: AxisPart) -> Segment:
    if part.kind == "logits":
        return _tokens("classes", network.classes) if network.classes else _numbers("logit", 1)
    if part.kind == "ids":
        return _ids(network.inputs[part.of], network.config) | {"of": part.table or part.of}
    if part.kind == "embedding":
        return {"of": part.of, "rows": part.rows, "embedding": part.rows}
    return _numbers(part.of, part.rows)


def _numbers(of: str, rows: int) -> Segment:
    return {"of": of, "rows": rows, "numbers": True}


def _tokens(of: str, tokens: Sequence[str]) -> Segment:
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
        owner = config.vocabulary_owner(feature)
        return segment | _vocabulary(getattr(config.features.get(owner), "vocabulary", None) or vocabulary, owner)
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
        return {"tokens": list(read_vocabulary_file(vocabulary.file)), "oov": oov}
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
