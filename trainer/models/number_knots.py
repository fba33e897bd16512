"""Computes the knots of numbers: quantiles of train, between which the encoding of a number is linear."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import Output
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.placement import InModel
from fullpass.trainer.models.model_inputs import input_name

BINS = 48
"""The maximum number of intervals between knots."""
_ROWS = 65_536
_MAX_BYTES = 256 << 20
_MIN_WIDTH = 1 / 400

Knots = Mapping[str, np.ndarray]
"""Transformed feature -> float32 [BINS + 1], rising; the last knot is repeated if a number has fewer."""


def sample_knots(split: Split, features: Sequence[Output], in_model: InModel | None, seed: int) -> Knots:
    """Returns the knots of the numbers of a split, except vectors, from up to 65,536 rows in shuffled order.

    Args:
        split: The train split.
        features: The transformed features that the model reads.
        in_model: Computes the features that are computed in the model; None without any.
        seed: The seed of the shuffle.
    """
    if not any(output.kind == "dense" for output in features):
        return {}
    few = max(1, min(_ROWS, _MAX_BYTES // max(1, split.row_bytes)))
    rows, _, _ = split.sample(few, seed)
    found: dict[str, tf.Tensor] = dict(rows)
    if in_model is not None:
        columns = {raw_name(name): rows[input_name(raw_name(name))] for name in in_model.columns}
        found |= {input_name(name): value for name, value in in_model(columns).items()}
    values = {o.name: found[input_name(o.name)] for o in features if o.kind == "dense"}
    return {name: knots_of(value.numpy()) for name, value in values.items() if value.shape.rank == 1}


def knots_of(values: np.ndarray) -> np.ndarray:
    """Returns the knots of a number, float32 [BINS + 1].

    A value that more than one in BINS rows has is a knot of its own. The other knots are quantiles of all other values,
    so that the other values of a number that is mostly 0 have knots too. Knots that are closer than a four-hundredth of
    the range of the middle nine tenths are merged, because float32 rounding would change the encoding between them.

    Args:
        values: Finite numbers, float32 [rows].
    """
    values = values.astype(np.float64)
    distinct, counts = np.unique(values, return_counts=True)
    found = distinct[counts > len(values) / BINS]
    others = values[~np.isin(values, found)]
    if len(others):
        shares = np.linspace(0, 1, BINS + 1 - len(found))
        found = np.union1d(found, np.quantile(others, shares, method="nearest"))
    low, high = np.quantile(values, [0.05, 0.95])
    least = _MIN_WIDTH * float((high - low) or np.ptp(values))
    kept = [found[0]]
    for knot in found[1:]:
        if knot - kept[-1] > least:
            kept.append(knot)
    return np.array([*kept, *[kept[-1]] * (BINS + 1 - len(kept))], np.float32)
