"""The inputs of a model: one per transformed feature, with sizes read from the transform graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2

from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.feature import Embedding
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, Output, outputs
from trainer.layers import MultiHot, OneHot, Pool

ONE_HOT_UP_TO = 32
_NOT_FEATURES = (LABEL, EXAMPLE_WEIGHT, ROW_ID)


@dataclass(frozen=True)
class ModelInput:
    """One transformed feature as a Keras input.

    Attributes:
        keras_input: float32 [batch] or [batch, width] if dense; int64 [batch] if ids; int64 [batch, n] if multi ids.
        output: what the transform graph says of it.
        size: number of different ids; 0 if dense.
        width: numbers per example; 0 if ids.
        weights: float32 [batch, n], the weight of each of the multi ids, or None.
    """

    keras_input: keras.KerasTensor
    output: Output
    size: int = 0
    width: int = 0
    weights: keras.KerasTensor | None = None

    @property
    def name(self) -> str:
        """Name of the transformed feature."""
        return self.output.name


def transformed_outputs(config: PreprocessingConfig, tft_output: tft.TFTransformOutput) -> tuple[Output, ...]:
    """Returns the transformed features, by the config or, behind a function of the user's, by the transform graph.

    Raises:
        UserError: The function gives a feature that is neither a float nor an id with a known range.
    """
    declared = outputs(config)
    if declared:
        return declared
    spec = tft_output.transformed_feature_spec()
    return tuple(_derive(name, spec[name], tft_output) for name in sorted(spec) if name not in _NOT_FEATURES)


def input_name(feature: str) -> str:
    """Returns the name of the Keras input of a transformed feature: its own, without the `/` that Keras forbids."""
    return feature.replace("/", "\N{DIVISION SLASH}")


def feature_names(features: Sequence[Output]) -> list[str]:
    """Returns every transformed feature that a model reads, weights of ids included."""
    return [name for output in features for name in (output.name, output.weights) if name is not None]


def model_inputs(features: Sequence[Output], tft_output: tft.TFTransformOutput) -> dict[str, ModelInput]:
    """Returns the inputs of a model by name of transformed feature, in the order of `features`."""
    spec = tft_output.transformed_feature_spec()
    return {output.name: _model_input(output, spec, tft_output) for output in features}


def keras_inputs(inputs: Mapping[str, ModelInput]) -> dict[str, keras.KerasTensor]:
    """Returns what a keras.Model takes as its inputs, by the names that Keras gives them."""
    tensors = [t for item in inputs.values() for t in (item.keras_input, item.weights) if t is not None]
    return {tensor.name: tensor for tensor in tensors}


def same_shapes(inputs: Mapping[str, ModelInput]) -> bool:
    """Returns whether a row of every input has the same shape in every batch: none is a list of ids of any length."""
    return all(None not in tensor.shape[1:] for tensor in keras_inputs(inputs).values())


def apply_model(model: keras.Model, features: Mapping[str, tf.Tensor], *, training: bool) -> tf.Tensor:
    """Returns the logits of a model for features by input name, of which it may use some only.

    Keras takes a dict that holds more than the inputs by position, and so mixes them up; here each is found by name.
    """
    return model({tensor.name: features[tensor.name] for tensor in model.inputs}, training=training)


def encode(inputs: Mapping[str, ModelInput]) -> list[keras.KerasTensor]:
    """Returns every input as float [batch, width]: numbers as they are, ids by their encoding.

    Raises:
        UserError: Features that share an embedding differ in size or width.
    """
    tables = _tables(inputs)
    return [_encode(item, tables.get(table_name(item))) for item in inputs.values()]


def encodes_one_hot(item: ModelInput) -> bool:
    """Whether ids are given one-hot rather than embedded."""
    encoding = item.output.encoding
    return encoding == "one_hot" or (encoding == "auto" and item.size <= ONE_HOT_UP_TO)


def embedding_width(item: ModelInput) -> int:
    """Returns the width of a feature's embedding; `auto` is min(64, round(1.6 * size ** 0.56))."""
    encoding = item.output.encoding
    if isinstance(encoding, Embedding) and encoding.embedding != "auto":
        return encoding.embedding
    return min(64, round(1.6 * item.size**0.56))


def dense_part(inputs: Mapping[str, ModelInput]) -> list[keras.KerasTensor]:
    """Returns the dense inputs, each as float32 [batch, width]."""
    return [_as_matrix(item) for item in inputs.values() if item.output.kind == "dense"]


def _derive(name: str, feature: Any, tft_output: tft.TFTransformOutput) -> Output:
    multi = not isinstance(feature, tf.io.FixedLenFeature)
    if feature.dtype == tf.float32 and not multi:
        return Output(name, name, "dense")
    if feature.dtype == tf.int64 and isinstance(tft_output.transformed_domains().get(name), schema_pb2.IntDomain):
        return Output(name, name, "ids", multi=multi or bool(feature.shape))
    raise UserError(
        f"transformed feature {name!r}, made by `preprocessing`, is {feature.dtype.name} "
        f"{'of varying length' if multi else list(feature.shape)}, which no model takes. Return float32 of a fixed "
        "length, or int64 ids with a range that the graph knows (tft.compute_and_apply_vocabulary, tft.bucketize, "
        "tft.hash_strings and the like give one)."
    )


def _model_input(output: Output, spec: Mapping[str, Any], tft_output: tft.TFTransformOutput) -> ModelInput:
    feature = spec[output.name]
    if output.kind == "dense":
        keras_input = keras.Input(tuple(feature.shape), name=input_name(output.name), dtype="float32")
        return ModelInput(keras_input, output, width=feature.shape[0] if feature.shape else 1)
    size = tft_output.num_buckets_for_transformed_feature(output.name)
    if not output.multi:
        return ModelInput(keras.Input((), name=input_name(output.name), dtype="int64"), output, size)
    row = tuple(feature.shape) if isinstance(feature, tf.io.FixedLenFeature) else (None,)
    ids = keras.Input(row, name=input_name(output.name), dtype="int64")
    weights = keras.Input(row, name=input_name(output.weights), dtype="float32") if output.weights else None
    return ModelInput(ids, output, size, weights=weights)


def table_name(item: ModelInput) -> str:
    """Returns the name of the embedding of a feature: its own, or that of the table it shares."""
    encoding = item.output.encoding
    return encoding.shared if isinstance(encoding, Embedding) and encoding.shared else item.name


def _tables(inputs: Mapping[str, ModelInput]) -> dict[str, keras.layers.Embedding]:
    users: dict[str, list[ModelInput]] = {}
    for item in inputs.values():
        if item.output.kind == "ids" and not encodes_one_hot(item):
            users.setdefault(table_name(item), []).append(item)
    return {name: _table(f"table_{i}", name, users[name]) for i, name in enumerate(users)}


def _table(layer: str, shared: str, users: Sequence[ModelInput]) -> keras.layers.Embedding:
    for what, values in (("ids", [u.size for u in users]), ("numbers wide", [embedding_width(u) for u in users])):
        if len(set(values)) > 1:
            found = ", ".join(f"{u.output.feature} has {v}" for u, v in zip(users, values, strict=True))
            raise UserError(
                f"features that share the embedding {shared!r} must be equal in vocabulary and width: {found} "
                f"({what}). Give them one vocabulary (tokens or file) and one width, or separate embeddings."
            )
    width = embedding_width(users[0])
    start = keras.initializers.TruncatedNormal(stddev=width**-0.5)
    return keras.layers.Embedding(users[0].size, width, embeddings_initializer=start, name=layer)


def _encode(item: ModelInput, table: keras.layers.Embedding | None) -> keras.KerasTensor:
    ids, weights = item.keras_input, item.weights
    if item.output.kind == "dense":
        return _as_matrix(item)
    if table is None:
        return OneHot(item.size)(ids) if not item.output.multi else _call(MultiHot(item.size), ids, weights)
    return table(ids) if not item.output.multi else _call(Pool("mean"), table(ids), ids, weights)


def _call(layer: keras.layers.Layer, *tensors: keras.KerasTensor | None) -> keras.KerasTensor:
    return layer(*[t for t in tensors if t is not None])


def _as_matrix(item: ModelInput) -> keras.KerasTensor:
    return item.keras_input if len(item.keras_input.shape) == 2 else keras.layers.Reshape((1,))(item.keras_input)
