"""Resolves the declared meaning of weights to the ids, numbers and classes of one trained network.

A warm start transfers weights by meaning, not by position. The name of a weight consists of its layer and its name in
the layer. Each of its axes is a list of segments, or None if an index has no meaning outside the layer. A segment
describes its rows: the ids of a vocabulary or a hash, or a number of plain numbers.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.stable_ids import read_vocabulary
from fullpass.preprocessing.apply.vocabulary_file import read_vocabulary_file
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import CategoryFeature, TextFeature
from fullpass.preprocessing.features.ids import Hash, Vocabulary
from fullpass.trainer.models.model_inputs import ModelInput, apply_model, encoded_axis
from fullpass.trainer.models.weight_axes import AxisPart, LayerMeaning, declared_axes

Segment = dict[str, Any]
"""A JSON object. of: the owner of the rows. rows: their number. The other keys define their meaning: `numbers`;
`embedding`; `vocabulary`, the name of its file, or `tokens`, with `oov`; `hash` and `key`; `values`; `places`. Without
these keys it is unknown."""

Axes = list[list[Segment] | None]
Label = tuple[Hashable, ...]
TOKEN = "token"
"""The second entry in the label of a row for a token."""


@dataclass(frozen=True)
class Network:
    """A network with everything that determines the meaning of its weights.

    Attributes:
        model: Maps transformed features to logits, or a regression to predictions, its head included.
        config: Defines the meaning of the ids of its features.
        classes: The names of the columns of the logits; empty if there is one column, in the unit of the label.
    """

    model: keras.Model
    inputs: Mapping[str, ModelInput]
    config: PreprocessingConfig
    classes: Sequence[str]

    @property
    def pixels(self) -> int:
        """The numbers that the images of a row hold."""
        return sum(item.width for item in self.inputs.values() if item.output.kind == "image")

    def logits(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits for features by input name, with the present weights; others are ignored.

        The network is traced once, whoever calls it, however often.
        """
        return self._traced({tensor.name: features[tensor.name] for tensor in self.model.inputs})

    @cached_property
    def _traced(self) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
        specs = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in self.model.inputs}

        @tf.function(input_signature=[specs], autograph=False)
        def compute(features: dict[str, tf.Tensor]) -> tf.Tensor:
            return apply_model(self.model, features, training=False)

        return compute.get_concrete_function()


@dataclass(frozen=True)
class Weight:
    """A weight of a model.

    Attributes:
        name: The name, which is the same in every model that has this weight.
        variable: Its index in `model.variables`.
        stated: Whether the builder of its layer declared that; a user-defined function may not declare it.
    """

    name: str
    variable: int
    shape: tuple[int, ...]
    axes: Axes
    stated: bool = True


def weights_of(network: Network, model: keras.Model | None = None) -> list[Weight]:
    """Returns the weights of a network in its order; the states of random layers are omitted.

    Args:
        model: The model whose variables are counted; None for that of the network.
    """
    indices = {id(variable): index for index, variable in enumerate((model or network.model).variables)}
    counts: dict[str, int] = {}
    found = []
    for layer in network.model.layers:
        meaning = declared_axes(layer)
        name = _layer_name(layer, meaning, counts)
        names = [weight.name for weight in layer.weights]
        for i, weight in enumerate(layer.weights):
            part = weight.name if names.count(weight.name) == 1 else f"{weight.name} {i}"
            shape = tuple(weight.shape)
            axes = _axes(network, layer, weight.name, shape)
            found.append(Weight(f"{name}/{part}", indices[id(weight)], shape, axes, meaning is not None))
    return found


def encoded_features(network: Network) -> list[Segment]:
    """Returns the meaning of the columns of all encoded features, side by side."""
    return [_segment(network, part) for part in encoded_axis(network.inputs)]


def _layer_name(layer: keras.layers.Layer, meaning: LayerMeaning | None, counts: dict[str, int]) -> str:
    """Returns a name that stays the same in the next model, even if that has other features or is not built first.

    Keras counts generated names per process. A layer with such a name is named by its class and its index in the class.
    """
    if meaning is not None and meaning.name is not None:
        return meaning.name
    generated = re.sub(r"(?<!^)(?=[A-Z])", "_", type(layer).__name__).lower()
    if not re.fullmatch(rf"{generated}(_\d+)?", layer.name.replace("__", "_")):
        return layer.name
    counts[generated] = counts.get(generated, -1) + 1
    return f"{generated} {counts[generated]}"


def _axes(network: Network, layer: keras.layers.Layer, weight: str, shape: tuple[int, ...]) -> Axes:
    meaning = declared_axes(layer)
    if meaning is None or weight not in meaning.axes:
        return [None] * len(shape)
    axes = [None if axis is None else [_segment(network, part) for part in axis] for axis in meaning.axes[weight]]
    declared = tuple(n if axis is None else sum(s["rows"] for s in axis) for axis, n in zip(axes, shape, strict=False))
    if len(axes) != len(shape) or declared != shape:
        raise UserError(
            f"weight {weight!r} of layer {layer.name!r} has the shape {shape}, but axes are declared for {declared}. "
            "Correct the axes passed to `declare_axes` where the layer is built."
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
    """Returns the segment that defines the meaning of a feature's ids."""
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
    """Returns one label per row of an axis, equal for rows with the same meaning in two models; () if it is unknown."""
    return [label for segment in axis for label in _labels(segment, saved_model)]


def _labels(segment: Segment, saved_model: str) -> list[Label]:
    of, rows = segment["of"], segment["rows"]
    if "vocabulary" in segment or "tokens" in segment:
        found = _token_labels(segment, saved_model)
        # An empty vocabulary has one row without a token.
        return found if len(found) == rows else found + [()] if len(found) == rows - 1 else [()] * rows
    if segment.get("values"):
        return [(of, "missing"), (of, "outside"), *((of, "value", i) for i in range(rows - 2))]
    known = [
        (name, repr(segment[name])) for name in ("numbers", "embedding", "hash", "key", "places") if name in segment
    ]
    if not known:
        return [()] * rows
    # With another number of places, buckets or dimensions, each has another meaning.
    return [(of, *known, rows, i) for i in range(rows)]


def _token_labels(segment: Segment, saved_model: str) -> list[Label]:
    of, oov = segment["of"], segment["oov"]
    if "tokens" in segment:
        tokens: Sequence[bytes] = [token.encode() for token in segment["tokens"]]
    else:
        tokens = read_vocabulary(saved_model, segment["vocabulary"])
    before: list[Label] = [] if oov is None else [(of, "missing"), *((of, "oov", oov, i) for i in range(oov))]
    return [*before, *((of, TOKEN, token) for token in tokens)]
