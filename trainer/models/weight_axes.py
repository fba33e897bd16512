"""Records the meaning of the rows and columns of a layer's weights, which the builder of the layer declares.

A builder wraps each layer that has weights in `declare_axes`. Example: a layer from all encoded features to the logits:

    declare_axes(keras.layers.Dense(classes), kernel=(encoded_axis(inputs), LOGITS), bias=(LOGITS,))

A warm start then matches these weights by meaning, whatever the order of features, ids and classes was before
(trainer/models/weight_semantics.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import keras


@dataclass(frozen=True)
class AxisPart:
    """Some rows or columns of a weight, side by side.

    Attributes:
        kind: The meaning of each row or column. `ids` is one id of a feature; `embedding` is one dimension of a
            feature's embedding; `numbers` is one number of `of`; `logits` is one column of the logits.
        of: The transformed feature, or the name of the owner of the numbers.
        rows: The number of rows or columns; not used for `logits`, whose number follows from the classes.
        table: The name of the embedding, for ids of features that share one.
    """

    kind: str
    of: str = ""
    rows: int = 0
    table: str | None = None


Axis = Sequence[AxisPart] | None
"""Parts side by side, or None if an index has no meaning outside the layer, such as the units of a hidden layer."""

LOGITS: Axis = (AxisPart("logits"),)

LayerT = TypeVar("LayerT", bound=keras.layers.Layer)


@dataclass(frozen=True)
class LayerMeaning:
    """The meaning that a builder declares for one layer.

    Attributes:
        axes: One axis per dimension, by name of weight. The indices of a weight that is not listed have no meaning
            outside the layer.
        name: The layer's name in every model that has it; by default its Keras name.
    """

    axes: dict[str, tuple[Axis, ...]]
    name: str | None = None


def declare_axes(layer: LayerT, *, stable_name: str | None = None, **axes: tuple[Axis, ...]) -> LayerT:
    """Declares the meaning of the weights of a layer, and returns the layer.

    Args:
        stable_name: A name that stays the same when features are added or reordered; by default the layer's own.
        **axes: Weight name -> one axis per dimension. Without any, indices have no meaning outside this layer.
    """
    layer.weight_meaning = LayerMeaning(axes, stable_name)
    return layer


def declared_axes(layer: keras.layers.Layer) -> LayerMeaning | None:
    """Returns the declared meaning of the weights of a layer; None if there is none."""
    return getattr(layer, "weight_meaning", None)
