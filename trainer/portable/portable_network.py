"""Rebuilds a trained network from layers and operations of Keras alone, so that Keras loads it without Fullpass.

The file that Keras saves then needs no class of Fullpass, no registration and no code. The network only infers: layers
that differ in training are replaced by what they do at inference. Weights stay weights of standard layers; small
constants are written as constants of operations. All numbers are float32, whatever the precision of the training.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import keras
import numpy as np
from keras import ops

from fullpass.base.errors import UserError
from fullpass.trainer.fit.blend import ConvexMean
from fullpass.trainer.loss_config import Quantile
from fullpass.trainer.models import image_encoders, layers, members, networks, tasks
from fullpass.trainer.models.augment_images import AugmentImages
from fullpass.trainer.trees.forest import ForestLayer
from fullpass.trainer.trees.grow_trees import InOrder
from fullpass.trainer.trees.tree_columns import SideBySide, WithMissing

_LOWEST = -3e38
"""Near the smallest number of float32, in place of an absent element, which is then never the largest."""
_NO_SCORE = -1e4
"""The attention to an absent element: its power of e is 0 in float32."""
_LARGEST_EXACT = 2.0**24
"""Whole numbers are exact in float32 up to this one."""
_WORD = 16
"""The ids in a word of a set: a whole number that every runtime divides exactly."""


def portable_network(network: keras.Model) -> keras.Model:
    """Returns a network with the same inputs and outputs as `network`, of layers of Keras alone.

    Raises:
        UserError: The network has layers that only Fullpass or the user's module has.
    """
    rebuilt = _Rebuilt()
    try:
        return keras.models.clone_model(network, call_function=rebuilt, clone_function=lambda layer: layer)
    except _NotPortableError as error:
        raise UserError(
            f"the network cannot leave Fullpass: its layer {error} is neither of Keras nor one that Fullpass can "
            "rebuild from layers of Keras. Use the SavedModel itself, which TensorFlow and TF Serving load."
        ) from error


class _NotPortableError(Exception):
    """A layer has no equal in Keras; the text names it."""


class _Rebuilt:
    """Replaces the call of a layer by the call of an equal layer of Keras, once per layer."""

    def __init__(self) -> None:
        self._copies: dict[int, keras.layers.Layer] = {}

    def __call__(self, layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
        rebuild = _REBUILD.get(type(layer))
        if rebuild is not None:
            return rebuild(self, layer, *args, **{k: v for k, v in kwargs.items() if k != "training"})
        if not type(layer).__module__.startswith("keras."):
            raise _NotPortableError(f"{layer.name} ({type(layer).__module__}.{type(layer).__qualname__})")
        if not isinstance(layer, keras.layers.Layer):
            return layer(*args, **kwargs)  # an operation
        if isinstance(layer, keras.Model):
            return keras.models.clone_model(layer, call_function=self, clone_function=lambda one: one)(*args, **kwargs)
        return self.standard(layer, lambda: _copy_of(layer), *args, **kwargs)

    def standard(
        self, layer: keras.layers.Layer, make: Callable[[], keras.layers.Layer], *args: Any, **kwargs: Any
    ) -> Any:
        """Returns the call of the layer that `make` returns, with the weights of `layer` if it has as many."""
        if id(layer) not in self._copies:
            self._copies[id(layer)] = copy = make()
            called = copy(*args, **kwargs)
            if copy.weights:
                copy.set_weights(layer.get_weights())
            return called
        return self._copies[id(layer)](*args, **kwargs)


def _copy_of(layer: keras.layers.Layer) -> keras.layers.Layer:
    return type(layer).from_config({**layer.get_config(), "dtype": "float32"})


def _with_weights(layer: keras.layers.Layer, x: Any, weights: Sequence[Any]) -> Any:
    called = layer(x)
    layer.set_weights([np.asarray(weight, np.float32) for weight in weights])
    return called


def _array(value: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(value))


def _column(x: Any) -> Any:
    return ops.expand_dims(x, axis=-1)


def _divided(total: Any, mass: Any) -> Any:
    """Returns total / mass, 0 where the mass is 0."""
    none = ops.equal(mass, 0.0)
    return ops.where(none, 0.0, ops.divide(total, ops.where(none, 1.0, mass)))


def _share(ids: Any, weights: Any = None) -> Any:
    """Returns the weight of each id, float32 [batch, n]; 0 for padding."""
    share = ops.cast(ops.not_equal(ids, 0), "float32")
    return share if weights is None else ops.multiply(share, weights)


def _mean_of(total: Any, share: Any, how: str | None) -> Any:
    if how in (None, "sum"):
        return total
    mass = ops.sum(share if how == "mean" else ops.square(share), axis=1, keepdims=True)
    return _divided(total, mass if how == "mean" else ops.sqrt(mass))


def _pooled(vectors: Any, ids: Any, weights: Any, how: str) -> Any:
    if how == "max":
        present = _column(ops.not_equal(ids, 0))
        lowest = ops.max(ops.where(present, vectors, _LOWEST), axis=1)
        return ops.where(ops.any(present, axis=1), lowest, 0.0)
    share = _share(ids, weights)
    return _mean_of(ops.sum(ops.multiply(vectors, _column(share)), axis=1), share, how)


def _one_hot(_: _Rebuilt, layer: layers.OneHot, ids: Sequence[Any]) -> Any:
    of_columns = ops.take(ops.stack(list(ids), axis=1), layer.owners.tolist(), axis=1)
    return ops.cast(ops.equal(of_columns, layer.places[None]), "float32")


def _multi_hot(_: _Rebuilt, layer: layers.MultiHot, ids: Any, weights: Any = None) -> Any:
    present = (np.arange(layer.size) > 0).astype(np.float32)
    hot = ops.one_hot(ids, layer.size)
    if layer.how == "max" or (layer.how is None and weights is None):
        return ops.multiply(ops.max(ops.pad(hot, [[0, 0], [0, 1], [0, 0]]), axis=1), present)
    share = _share(ids, weights)
    counts = _mean_of(ops.sum(ops.multiply(hot, _column(share)), axis=1), share, layer.how)
    return ops.multiply(counts, present)


def _number_embedding(_: _Rebuilt, layer: layers.NumberEmbedding, numbers: Sequence[Any]) -> Any:
    knots, count = _array(layer.knots), len(numbers)
    lower, wide = knots[:, :-1], knots[:, 1:] - knots[:, :-1]
    x = ops.stack(list(numbers), axis=1)
    away = ops.subtract(_column(x), lower[None])
    progress = ops.clip(ops.divide(away, np.where(wide > 0, wide, 1.0)[None]), 0.0, 1.0)
    vectors = keras.layers.EinsumDense("bni,niw->bnw", (count, layer.width), bias_axes="nw", activation="relu")
    kernel = np.where(wide[:, :, None] > 0, _array(layer.kernel), 0.0)
    encoded = ops.reshape(_with_weights(vectors, progress, [kernel, _array(layer.bias)]), (-1, count * layer.width))
    first, last = (_array(layer._standardised(ops.convert_to_tensor(knots[:, at][None]))) for at in (0, -1))
    # Standardising is linear between the outer knots.
    span = knots[:, -1] - knots[:, 0]
    slope = np.where(span > 0, (last - first)[0] / np.where(span > 0, span, 1.0), 0.0).astype(np.float32)
    inside = ops.subtract(ops.minimum(ops.maximum(x, knots[None, :, 0]), knots[None, :, -1]), knots[None, :, 0])
    return [encoded, ops.add(ops.multiply(inside, slope[None]), first)]


def _id_table(rebuilt: _Rebuilt, layer: layers.IdTable, ids: Any, weights: Any = None, pool: str | None = None) -> Any:
    vectors = rebuilt.standard(layer, lambda: keras.layers.Embedding(layer.input_dim, layer.output_dim), ids)
    return vectors if pool is None else _pooled(vectors, ids, weights, pool)


def _pool(_: _Rebuilt, layer: layers.Pool, vectors: Any, ids: Any, weights: Any = None) -> Any:
    return _pooled(vectors, ids, weights, layer.how)


def _attention_pool(_: _Rebuilt, layer: layers.AttentionPool, vectors: Any, ids: Any, weights: Any = None) -> Any:
    scores = ops.sum(ops.multiply(vectors, _array(layer.query)[None, None]), axis=2)
    present = ops.cast(ops.not_equal(ids, 0), "float32")
    masked = ops.where(ops.not_equal(ids, 0), scores, _NO_SCORE)
    powers = ops.multiply(ops.exp(ops.subtract(masked, ops.max(masked, axis=1, keepdims=True))), present)
    share = powers if weights is None else ops.multiply(powers, weights)
    shares = _divided(share, ops.sum(share, axis=1, keepdims=True))
    return ops.sum(ops.multiply(vectors, _column(shares)), axis=1)


def _id_weights(rebuilt: _Rebuilt, layer: layers.IdWeights, ids: Sequence[Any]) -> Any:
    rows = ops.subtract(ops.stack(list(ids), axis=1), -layer.offsets[None])  # `add` would add a bias of integers
    return ops.sum(rebuilt.standard(layer, lambda: keras.layers.Embedding(layer.total, layer.units), rows), axis=1)


def _bias(_: _Rebuilt, layer: layers.Bias, x: Any) -> Any:
    return ops.add(x, _array(layer.bias)[None])


def _affine(_: _Rebuilt, layer: layers.Affine, x: Any) -> Any:
    return ops.add(ops.multiply(x, float(layer.scale)), np.asarray(layer.offset, np.float32))


def _cross(_: _Rebuilt, layer: networks.CrossLayer, first: Any, x: Any) -> Any:
    projected = x
    if layer.rank is not None:
        projected = _with_weights(keras.layers.Dense(layer.rank, use_bias=False), x, [_array(layer.down)])
    weights = [_array(layer.kernel), _array(layer.bias)]
    return ops.add(ops.multiply(first, _with_weights(keras.layers.Dense(x.shape[-1]), projected, weights)), x)


def _member_dense(_: _Rebuilt, layer: members.MemberDense, x: Any) -> Any:
    product = keras.layers.Dense(layer.units, use_bias=False)
    if layer.input_scale is None:
        together = ops.expand_dims(_with_weights(product, x, [_array(layer.kernel)]), axis=1)
    else:
        together = _with_weights(product, ops.multiply(x, _array(layer.input_scale)[None]), [_array(layer.kernel)])
    return ops.add(ops.multiply(together, _array(layer.scale)[None]), _array(layer.bias)[None])


def _member_logits(_: _Rebuilt, layer: members.MemberLogits, x: Any) -> Any:
    shape = (x.shape[1], layer.classes)
    return _with_weights(
        keras.layers.EinsumDense("bmn,mnc->bmc", shape, bias_axes="mc"), x, [_array(layer.kernel), _array(layer.bias)]
    )


def _rising_quantiles(_: _Rebuilt, layer: tasks.RisingQuantiles, x: Any) -> Any:
    x = ops.add(x, layer._start)
    steps = ops.concatenate([ops.take(x, [0], axis=-1), ops.softplus(ops.take(x, _after_first(x), axis=-1))], axis=-1)
    return ops.cumsum(steps, axis=-1)


def _after_first(x: Any) -> list[int]:
    return list(range(1, x.shape[-1]))


def _with_prediction(_: _Rebuilt, layer: tasks.WithPrediction, quantiles: Any) -> Any:
    return ops.concatenate([ops.take(quantiles, [layer._index], axis=-1), quantiles], axis=-1)


def _normalize(_: _Rebuilt, layer: image_encoders.NormalizePixels, pixels: Any) -> Any:
    mean, deviation = _array(layer.moments)
    return ops.divide(ops.subtract(pixels, mean[None, None, None]), deviation[None, None, None])


def _with_missing(_: _Rebuilt, layer: WithMissing, numbers: Any, indicator: Any) -> Any:
    return ops.where(ops.greater(indicator, 0.5), np.full((1, 1), np.nan, np.float32), numbers)


def _side_by_side(_: _Rebuilt, layer: SideBySide, parts: Sequence[Any]) -> Any:
    return ops.concatenate([ops.cast(part, "float32") for part in parts], axis=1)


def _convex_mean(_: _Rebuilt, layer: ConvexMean, outputs: Sequence[Any]) -> Any:
    if isinstance(layer.loss, Quantile):
        outputs = [ops.take(output, _after_first(output), axis=-1) for output in outputs]
    parts = [ops.log(output) for output in outputs] if layer.loss.logarithmic else outputs
    return reduce(ops.add, [ops.multiply(part, float(share)) for part, share in zip(parts, layer.shares, strict=True)])


def _forest(_: _Rebuilt, layer: ForestLayer, columns: Any) -> Any:
    """Returns the output of trees: all decisions at once, and the leaf by a product, as `ForestLayer` does.

    A set of ids is a row of words of 16 bits, which are divided instead of shifted, because LiteRT has no bitwise
    operations.
    """
    forest = layer.forest
    trees, leaves = forest.value.shape
    missing = ops.isnan(columns)
    known = [ops.where(missing, np.float32(-np.inf), columns), ops.where(missing, np.float32(np.inf), columns)]
    if len(forest.set_start):
        known.append(_outside_sets(forest, ops.where(missing, -1.0, columns)))
    source, threshold = forest.decisions(columns.shape[1])
    seen = ops.take(ops.concatenate(known, axis=1), source.ravel().tolist(), axis=1)
    left = ops.cast(ops.less_equal(seen, threshold.ravel()[None]), "float32")
    left = ops.reshape(left, (-1, *source.shape))
    turns = keras.layers.EinsumDense("btd,tdl->btl", (trees, leaves), bias_axes=None)
    reached = _with_weights(turns, left, [forest.path.transpose(0, 2, 1)])
    on_leaf = ops.cast(ops.equal(reached, forest.turns[None]), "float32")
    value = np.zeros((trees, leaves, forest.outputs), np.float32)
    value[np.arange(trees), :, np.arange(trees) % forest.outputs] = forest.value
    total = keras.layers.Dense(forest.outputs, use_bias=False)
    return _with_weights(total, ops.reshape(on_leaf, (-1, trees * leaves)), [value.reshape(-1, forest.outputs)])


def _outside_sets(forest: Any, columns: Any) -> Any:
    """Returns 0 if the set of a decision contains the id of its column and 1 if not, float32 [batch, sets]."""
    words = forest.words.view(np.uint16).astype(np.float32)  # pairs of 16 bits, the lower one first
    column = forest.column[forest.in_set >= 0][np.argsort(forest.in_set[forest.in_set >= 0])]
    ids = ops.clip(ops.take(columns, column.tolist(), axis=1), -1.0, _LARGEST_EXACT)
    word = ops.floor(ops.divide(ids, float(_WORD)))
    within = ops.logical_and(ops.greater_equal(ids, 0.0), ops.less(word, forest.set_words[None].astype(np.float32) * 2))
    index = ops.cast(ops.where(within, ops.add(word, forest.set_start[None].astype(np.float32) * 2), 0.0), "int32")
    bits = _with_weights(keras.layers.Embedding(len(words), 1), index, [words[:, None]])
    bits = ops.squeeze(bits, axis=-1)
    powers = (2.0 ** np.arange(_WORD)).astype(np.float32)[:, None]
    place = ops.cast(ops.where(within, ops.subtract(ids, ops.multiply(word, float(_WORD))), 0.0), "int32")
    power = ops.squeeze(_with_weights(keras.layers.Embedding(_WORD, 1), place, [powers]), axis=-1)
    shifted = ops.floor(ops.divide(bits, power))
    odd = ops.subtract(shifted, ops.multiply(ops.floor(ops.divide(shifted, 2.0)), 2.0))
    return ops.where(within, ops.subtract(1.0, odd), 1.0)


_REBUILD: Mapping[type, Callable[..., Any]] = {
    layers.OneHot: _one_hot,
    layers.MultiHot: _multi_hot,
    layers.MaskedIds: lambda _, layer, ids: list(ids),
    layers.NumberEmbedding: _number_embedding,
    layers.IdTable: _id_table,
    layers.Pool: _pool,
    layers.AttentionPool: _attention_pool,
    layers.IdWeights: _id_weights,
    layers.Bias: _bias,
    layers.Affine: _affine,
    networks.CrossLayer: _cross,
    members.MemberDense: _member_dense,
    members.MemberLogits: _member_logits,
    members.MeanOfMembers: lambda _, layer, logits: ops.mean(logits, axis=1),
    tasks.Exponential: lambda _, layer, x: ops.exp(ops.clip(x, -tasks.LARGEST_LOGARITHM, tasks.LARGEST_LOGARITHM)),
    tasks.RisingQuantiles: _rising_quantiles,
    tasks.WithPrediction: _with_prediction,
    image_encoders.NormalizePixels: _normalize,
    AugmentImages: lambda _, layer, images: ops.cast(images, "float32"),
    WithMissing: _with_missing,
    SideBySide: _side_by_side,
    ConvexMean: _convex_mean,
    InOrder: lambda _, layer, x: ops.sort(x, axis=-1),
    ForestLayer: _forest,
}
"""Layer of Fullpass -> function from (rebuilt, layer, inputs) to its output by Keras alone."""
