"""Determines where each transformed feature is computed, and computes those of the model.

A feature is computed by Transform, which stores it, by the input function, or by the model. All three apply parts of
one transform graph to the same raw columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.transform_graph import TransformGraph
from fullpass.preprocessing.columns.compute_at import (
    columns_for,
    compute_at_by_feature,
    materializes,
    raw_name,
    string_features,
)
from fullpass.preprocessing.columns.outputs import feature_names, input_name
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.input.raw_tensors import DTYPES, dense_shape, to_sparse
from fullpass.trainer.records.blocks import dense


@dataclass(frozen=True)
class FeaturePlacement:
    """The content of the records, and where the other features are computed.

    Attributes:
        materialized: Whether the records are transformed examples; else they are raw ones.
        stored: The transformed features that the records hold.
        at_input: The transformed features that the input function computes.
        in_model: The transformed features that the model computes, those that process text first.
        text: How many of `in_model` process text.
        columns_at_input: The raw columns that `at_input` is computed from.
        columns_in_model: The raw columns that `in_model` is computed from.
    """

    materialized: bool
    stored: tuple[str, ...]
    at_input: tuple[str, ...]
    in_model: tuple[str, ...]
    text: int
    columns_at_input: Mapping[str, RawColumn]
    columns_in_model: Mapping[str, RawColumn]

    @property
    def text_in_model(self) -> tuple[str, ...]:
        """The transformed features in the model that process text, which only a CPU can do."""
        return self.in_model[: self.text]

    @property
    def read(self) -> list[str]:
        """The transformed features that batches hold."""
        return [*self.stored, *self.at_input]


def placement_of(config: PreprocessingConfig, features: Sequence[Output]) -> FeaturePlacement:
    """Returns the placement of the transformed features that a model reads, from `transformed_outputs`."""
    by_feature = compute_at_by_feature(config)
    at = {
        where: [o for o in features if by_feature.get(o.feature, config.compute_at) == where]
        for where in ("transform", "input", "model")
    }
    on_text = string_features(config, [output.feature for output in at["model"]])
    with_text = [output for output in at["model"] if output.feature in on_text]
    without = [output for output in at["model"] if output.feature not in on_text]
    return FeaturePlacement(
        materialized=materializes(config),
        stored=tuple(feature_names(at["transform"])),
        at_input=tuple(feature_names(at["input"])),
        in_model=tuple(feature_names([*with_text, *without])),
        text=len(feature_names(with_text)),
        columns_at_input=columns_for(config, "input"),
        columns_in_model=columns_for(config, "model"),
    )


class InModel:
    """Computes the transformed features of the model from dense raw columns.

    The host processes text, whatever the device of the model. The device of the model processes numbers.
    """

    def __init__(self, placement: FeaturePlacement, tft_output: tft.TFTransformOutput):
        self.names = placement.in_model
        self.columns = placement.columns_in_model
        graph = TransformGraph(tft_output.transform_savedmodel_dir)
        text, numbers = self.names[: placement.text], self.names[placement.text :]
        self._on_host = graph.part(text) if text else None
        self._on_device = graph.part(numbers) if numbers else None

    def __call__(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns features by name in the form of batches: lists of ids of variable length are padded with 0.

        `columns` are the dense raw columns by `raw_name`; others are ignored.
        """
        features: dict[str, tf.Tensor | tf.SparseTensor] = {}
        with tf.device("/CPU:0"):
            raw = self._sparse(columns)
            if self._on_host is not None:
                features |= self._on_host(raw)
        if self._on_device is not None:
            features |= self._on_device(raw)
        return {name: dense(features[name]) for name in self.names}

    def add_model_features(
        self, block: Mapping[str, tf.Tensor | tf.RaggedTensor]
    ) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Returns rows with the features that the model computes in place of their raw columns."""
        rest = {name: value for name, value in block.items() if name not in map(raw_name, self.columns)}
        return {**rest, **self(block)}

    def _sparse(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.SparseTensor]:
        given = {name: columns[raw_name(name)] for name in self.columns}
        rows = tf.shape(next(iter(given.values())), tf.int64)[0]
        return to_sparse(given, rows)


def with_model_features(batch: Mapping[str, Any], in_model: InModel | None) -> dict[str, Any]:
    """Returns the features of rows by input name, those that the model computes included."""
    features = dict(batch)
    if in_model is not None:
        columns = {raw_name(name): batch[input_name(raw_name(name))] for name in in_model.columns}
        features |= {input_name(name): value for name, value in in_model(columns).items()}
    return features


def with_preprocessing(network: keras.Model, in_model: InModel | None) -> keras.Model:
    """Returns a model that computes the features of `in_model` from their raw columns and applies `network` to them.

    The variables of the model are those of `network`.
    """
    computed = {input_name(name): name for name in in_model.names} if in_model else {}
    inside = {computed[tensor.name]: tensor for tensor in network.inputs if tensor.name in computed}
    if in_model is None or not inside:
        return network
    columns = {raw_name(name): _raw_input(column) for name, column in in_model.columns.items()}
    features = {input_name(name): tensor for name, tensor in _Preprocess(in_model, inside)(columns).items()}
    read = {
        tensor.name: keras.Input(tensor.shape[1:], name=tensor.name, dtype=tensor.dtype)
        for tensor in network.inputs
        if tensor.name not in features
    }
    given = features | read
    logits = network({tensor.name: given[tensor.name] for tensor in network.inputs})
    return keras.Model([*read.values(), *columns.values()], logits)


def _raw_input(column: RawColumn) -> keras.KerasTensor:
    name = input_name(raw_name(column.name))
    return keras.Input(dense_shape(column)[1:], name=name, dtype=DTYPES[column.type].name)


def refuse_text(placement: FeaturePlacement, who: str) -> None:
    """Raises UserError if the model processes text, which `who`, a TPU or a compiler, does not support."""
    if placement.text_in_model:
        raise UserError(
            f"{who} cannot process text, from which the model computes {', '.join(placement.text_in_model)}. Set "
            "compute_at: input or compute_at: transform for these features."
        )


class _Preprocess(keras.layers.Layer):
    """Dense raw columns -> transformed features; in float32, whatever the precision of the model."""

    def __init__(self, in_model: InModel, features: Mapping[str, keras.KerasTensor]):
        super().__init__(dtype="float32", autocast=False, trainable=False, name="preprocessing")
        self._in_model = in_model
        self._specs = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in features.items()]

    def call(self, columns):
        features = self._in_model(columns)
        return {name: tf.ensure_shape(features[name], shape) for name, shape, _ in self._specs}

    def compute_output_spec(self, columns):
        return {name: keras.KerasTensor(shape, dtype) for name, shape, dtype in self._specs}
