"""Encoders that read the ids of a row in their order; id 0 is padding and comes after all other ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import keras
import numpy as np

from fullpass.preprocessing.features.lists import Gru, Transformer
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.models.layers import AttentionPool, Pool, masked_softmax
from fullpass.trainer.models.weight_axes import declare_axes

_POOLED = 64
"""The width of an element of a pooled sequence."""


_SPREAD = 0.1
"""Standard deviation of the first vectors of positions, small beside those of the steps, which it is added to."""


class Positions(keras.layers.Layer):
    """vectors float [batch, n, width] -> the same, plus a trained vector for each of `longest` positions."""

    def __init__(self, longest: int, **options):
        super().__init__(**options)
        self.longest = longest

    def build(self, shape):
        start = keras.initializers.TruncatedNormal(stddev=_SPREAD)
        self.table = self.add_weight(shape=(self.longest, shape[2]), initializer=start, name="table")

    def call(self, vectors):
        return vectors + self.table[None, : keras.ops.shape(vectors)[1]]


class Present(keras.layers.Layer):
    """ids int64 [batch, n] -> bool [batch, n], which of them are not padding."""

    def call(self, ids):
        return keras.ops.not_equal(ids, 0)


class AtLeastOne(keras.layers.Layer):
    """int64 or float32 [batch, n] -> [batch, max(n, 1)]: a batch without elements gets one element of padding.

    The loop of a GRU and the products of a transformer have no result for zero elements.
    """

    def call(self, elements):
        batch, n = keras.ops.shape(elements)
        padding = keras.ops.zeros((batch, keras.ops.maximum(1 - n, 0)), elements.dtype)
        return keras.ops.concatenate([elements, padding], axis=1)


class MaskedMean(keras.layers.Layer):
    """vectors float [batch, n, width], bool [batch, n] -> float [batch, width]: the mean of present ones, else 0."""

    def call(self, vectors, present):
        share = keras.ops.cast(present, vectors.dtype)
        count = keras.ops.maximum(keras.ops.sum(share, axis=1, keepdims=True), 1)
        return keras.ops.einsum("bnw,bn->bw", vectors, share) / count


class AnyPresent(keras.layers.Layer):
    """A list of ids int64 [batch, n] -> bool [batch, n], where one of them is not 0."""

    def call(self, ids):
        return keras.ops.any(keras.ops.not_equal(keras.ops.stack(ids), 0), axis=0)


class NumberSteps(keras.layers.Layer):
    """ids int64 [batch, n], numbers float32 [batch, n] -> float [batch, n, 2]: the number, and 1 where it is missing.

    Id 1 is a missing number, 2 a present one.
    """

    def call(self, ids, numbers):
        missing = keras.ops.cast(keras.ops.equal(ids, 1), self.compute_dtype)
        return keras.ops.stack([keras.ops.cast(numbers, self.compute_dtype), missing], axis=2)


class _Unmasked(keras.layers.Layer):
    """Takes the mask as an argument, and ignores the mask that Keras attaches to the states of a GRU."""

    def __init__(self, **options):
        super().__init__(**options)
        self.supports_masking = True

    def compute_mask(self, *inputs, **options):
        return None


class Last(_Unmasked):
    """states float [batch, n, width], bool [batch, n] -> float [batch, width]: the last present state, else 0."""

    def call(self, states, present):
        positions = keras.ops.arange(1, keras.ops.shape(states)[1] + 1, dtype="int32")
        last = keras.ops.max(keras.ops.where(present, positions, 0), axis=1, initial=0)
        last = keras.ops.one_hot(last - 1, keras.ops.shape(states)[1], dtype=states.dtype)
        return keras.ops.einsum("bnw,bn->bw", states, last)


class TargetAttention(_Unmasked):
    """vectors [batch, n, w], keys [batch, n, k], query [batch, k], bool [batch, n] -> float [batch, w].

    It is a weighted mean of the vectors. The weights are the softmax of keys times query, scaled by a trained factor. A
    row without elements gives 0. Source: Zhou et al. 2018, Deep Interest Network, with a product in place of its
    network.
    """

    def build(self, vectors_shape, keys_shape, query_shape, present_shape):
        start = keras.initializers.Constant(float(np.sqrt(keys_shape[2])))
        self.scale = self.add_weight(shape=(), initializer=start, name="scale")

    def call(self, vectors, keys, query, present):
        scores = keras.ops.einsum("bnk,bk->bn", keys, query) * self.scale
        return keras.ops.einsum("bnw,bn->bw", vectors, masked_softmax(scores, present))


def encoded_width(output: Output, embedding: int) -> int:
    """Returns the width of an encoded feature whose ids have embeddings of width `embedding`."""
    read = output.encoder.units if output.encoder is not None else embedding
    return read if output.attend_to is None else 2 * read


def encode_in_order(
    output: Output,
    table: keras.layers.Embedding,
    ids: keras.KerasTensor,
    candidate: keras.KerasTensor | None,
    pool: keras.layers.Layer | None,
) -> keras.KerasTensor:
    """Returns the ids of a row as float [batch, encoded_width].

    Args:
        ids: int64 [batch, n].
        candidate: int64 [batch], the ids of `attend_to`, or None.
        pool: Pools the vectors if the feature has no encoder, else None.
    """
    ids = AtLeastOne()(ids)
    vectors, present = table(ids), Present()(ids)
    states, read = _read(output, vectors, present) if pool is None else (vectors, pool(vectors, ids))
    if candidate is None:
        return read
    attention = declare_axes(TargetAttention(), stable_name=f"target attention of {output.name}")
    return keras.layers.Concatenate()([read, attention(states, vectors, table(candidate), present)])


@dataclass(frozen=True)
class ColumnOfSequence:
    """One column of a sequence in the model.

    Attributes:
        ids: int64 [batch, n].
        numbers: float32 [batch, n]; None for a category or date.
        table: The embedding of the ids; None for a number.
    """

    output: Output
    ids: keras.KerasTensor
    numbers: keras.KerasTensor | None
    table: keras.layers.Embedding | None

    @property
    def vectors(self) -> keras.KerasTensor:
        """The elements, float [batch, n, width]."""
        if self.table is not None:
            return self.table(self.ids)
        return NumberSteps()(self.ids, self.numbers)

    def at_least_one(self) -> "ColumnOfSequence":
        """Returns the column, with an element of padding if the batch has no elements."""
        numbers = None if self.numbers is None else AtLeastOne()(self.numbers)
        return replace(self, ids=AtLeastOne()(self.ids), numbers=numbers)


def width_of_sequence(outputs: Sequence[Output]) -> int:
    """Returns the width of an encoded sequence of these columns."""
    units = outputs[0].encoder.units if outputs[0].encoder is not None else _POOLED
    return units if all(output.attend_to is None for output in outputs) else 2 * units


def encode_sequence(columns: Sequence[ColumnOfSequence], candidate: keras.KerasTensor | None) -> keras.KerasTensor:
    """Returns a sequence as float [batch, width_of_sequence].

    Args:
        columns: Its columns; an element consists of their values side by side.
        candidate: int64 [batch], the ids of `attend_to`, or None.
    """
    output = columns[0].output
    of_sequence = replace(output, name=output.sequence or output.name)
    columns = [column.at_least_one() for column in columns]
    vectors = [column.vectors for column in columns]
    together = keras.layers.Concatenate()(vectors) if len(vectors) > 1 else vectors[0]
    present = AnyPresent()([column.ids for column in columns])
    if output.encoder is not None:
        states, read = _read(of_sequence, together, present)
    else:
        element = keras.layers.Dense(_POOLED, activation="relu")
        states = declare_axes(element, stable_name=f"element of {of_sequence.name}")(together)
        pool = AttentionPool() if output.pooling == "attention" else Pool(output.pooling or "mean")
        read = declare_axes(pool, stable_name=f"pool of {of_sequence.name}")(states, present)
    if candidate is None:
        return read
    keys, query = next(
        (keys, column.table(candidate))
        for keys, column in zip(vectors, columns, strict=True)
        if column.output.attend_to is not None and column.table is not None
    )
    attention = declare_axes(TargetAttention(), stable_name=f"target attention of {of_sequence.name}")
    return keras.layers.Concatenate()([read, attention(states, keys, query, present)])


def _read(
    output: Output, vectors: keras.KerasTensor, present: keras.KerasTensor
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns the states of the elements [batch, n, units], and the encoded row [batch, units]."""
    match output.encoder:
        case Gru(units=units):
            layer = declare_axes(keras.layers.GRU(units, return_sequences=True), stable_name=f"gru of {output.name}")
            states = layer(vectors, mask=present)
            return states, Last()(states, present)
        case Transformer() as spec:
            states = _transformed(output, spec, vectors, present)
            return states, MaskedMean()(states, present)
    raise ValueError(f"{output.name}: no encoder")


def _transformed(
    output: Output, spec: Transformer, vectors: keras.KerasTensor, present: keras.KerasTensor
) -> keras.KerasTensor:
    """Returns vectors after the transformer layers, with normalization before each (Xiong et al. 2020)."""

    def known(layer: keras.layers.Layer, what: str) -> keras.layers.Layer:
        return declare_axes(layer, stable_name=f"{what} of {output.name}")

    x = known(Positions(output.longest or 1), "positions")(known(keras.layers.Dense(spec.units), "projection")(vectors))
    for i in range(spec.layers):
        normal = known(keras.layers.LayerNormalization(), f"norm {2 * i}")(x)
        attention = keras.layers.MultiHeadAttention(spec.heads, spec.units // spec.heads, dropout=spec.dropout)
        mask = keras.layers.Reshape((1, -1))(present)
        x = x + known(attention, f"attention {i}")(normal, normal, attention_mask=mask)
        normal = known(keras.layers.LayerNormalization(), f"norm {2 * i + 1}")(x)
        wide = known(keras.layers.Dense(2 * spec.units, activation="gelu"), f"wide {i}")(normal)
        x = x + known(keras.layers.Dense(spec.units), f"narrow {i}")(keras.layers.Dropout(spec.dropout)(wide))
    return known(keras.layers.LayerNormalization(), "last norm")(x)
