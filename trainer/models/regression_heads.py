"""Regression heads: convert the output of a network to predictions in the label's unit.

The first column of the result is the prediction. A network whose output is about 0 predicts a typical label of train,
whatever its unit.
"""

import keras
import numpy as np
from scipy import special

from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.loss_config import LossConfig, Quantile
from fullpass.trainer.models.layers import Affine

_LARGEST_LOGARITHM = 80.0


def label_unit(counts: SplitCounts, loss: LossConfig) -> tuple[float, float]:
    """Returns the scale and the offset of a network's output: deviation and mean of the label.

    With `loss: log_normal` they are those of the label's logarithm; with poisson the scale is 1 and the offset is the
    logarithm of the mean.
    """
    mean, deviation = counts.label_mean, counts.label_deviation or 1.0
    if loss.kind == "poisson":
        return 1.0, float(np.log(max(mean, 1e-6)))
    if loss.kind == "log_normal":
        # Converts mean and deviation of a log-normal distribution to those of its logarithm.
        spread = np.log1p((deviation / mean) ** 2)
        return float(np.sqrt(spread)), float(np.log(mean) - spread / 2)
    return deviation, mean


def regression_head(logits: keras.KerasTensor, counts: SplitCounts, loss: LossConfig) -> keras.KerasTensor:
    """Returns the output of a regression: float32 [batch, 1], with quantiles [batch, 1 + levels].

    Args:
        logits: The logits of the network, [batch, columns], or [batch, members, columns].
        counts: The counts of the train split.
        loss: The key `training.loss`.
    """
    scale, offset = label_unit(counts, loss)
    if isinstance(loss, Quantile):
        logits = RisingQuantiles(loss.levels, name="rising")(logits)
    return to_label_unit(logits, scale, offset, loss)


def to_label_unit(output: keras.KerasTensor, scale: float, offset: float, loss: LossConfig) -> keras.KerasTensor:
    """Returns a regression's output in the unit of the label, after the layer `head`: float32 [batch, 1 or more].

    Args:
        output: [..., columns].
        scale: The factor of the output.
        offset: The number that is then added.
        loss: The key `training.loss`: logarithms are exponentiated; with quantiles, the prediction comes first.
    """
    columns = len(loss.levels) if isinstance(loss, Quantile) else 1
    headed = Affine(scale, np.full(columns, offset), name="head")(output)
    if isinstance(loss, Quantile):
        return WithPrediction(loss.middle, name="prediction_first")(headed)
    return Exponential(name="mean")(headed) if loss.logarithmic else headed


class Exponential(keras.layers.Layer):
    """x -> e ** x, float32; x is clipped, so that the result is always finite."""

    def __init__(self, **options):
        super().__init__(dtype="float32", **options)

    def call(self, x):
        return keras.ops.exp(keras.ops.clip(x, -_LARGEST_LOGARITHM, _LARGEST_LOGARITHM))


class RisingQuantiles(keras.layers.Layer):
    """x float [..., levels] -> quantiles that rise, float32 [..., levels], in deviations from the mean.

    The first quantile is a column of its own. Each other quantile is a softplus above the previous one, so that they
    cannot cross. x = 0 gives the quantiles of the normal distribution.
    """

    def __init__(self, levels, **options):
        super().__init__(dtype="float32", **options)
        normal = special.ndtri(levels)
        # softplus(log(e ** step - 1)) is the step.
        self._start = np.concatenate([normal[:1], np.log(np.expm1(np.diff(normal)))]).astype(np.float32)

    def call(self, x):
        x = x + self._start
        return keras.ops.cumsum(keras.ops.concatenate([x[..., :1], keras.ops.softplus(x[..., 1:])], axis=-1), axis=-1)

    def compute_output_shape(self, shape):
        return shape


class WithPrediction(keras.layers.Layer):
    """Quantiles [..., levels] -> [..., 1 + levels]: the quantile at `index`, the prediction, is put before them."""

    def __init__(self, index: int, **options):
        super().__init__(dtype="float32", **options)
        self._index = index

    def call(self, quantiles):
        return keras.ops.concatenate([quantiles[..., self._index : self._index + 1], quantiles], axis=-1)

    def compute_output_shape(self, shape):
        return (*shape[:-1], shape[-1] + 1)
