"""Blends the models of `model: auto`: chooses convex weights on validation rows, and builds the blend as one model.

A weighted mean of two models that err differently often errs less than either (Breiman, Stacked Regressions, 1996;
convex weights of two models need one number, which a few hundred rows determine).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy import optimize

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, halves, mean_and_reach
from fullpass.trainer.loss_config import LossConfig, Quantile
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import apply_model, keras_inputs
from fullpass.trainer.models.tasks import to_label_unit
from fullpass.trainer.models.weight_semantics import Network

_WIDTH = 1e-3
_MIN_ROWS = 20
_PRIOR = 4.0
"""The cost of the squared distance from equal weights, in rows: one more row at a distance of 1/2."""
_LEAST = 0.05
"""A model of less weight is left out."""


@dataclass(frozen=True)
class Choice:
    """The weights of two models, and what their blend gains over the better model.

    Attributes:
        weights: Kind of model -> its weight; they add up to 1.
        gain: The mean loss that the blend saves, per row that its weights were not chosen on.
        reach: Half the width of the 95 % interval of `gain`.
        rows: The number of rows.
    """

    weights: Mapping[str, float]
    gain: float
    reach: float
    rows: int

    @property
    def pays(self) -> bool:
        """Whether both models have weight, and the blend is not worse beyond chance."""
        return min(self.weights.values()) >= _LEAST and self.gain > -self.reach

    def record(self) -> dict[str, Any]:
        """Returns the entry `blend` of training.json."""
        return {**vars(self), "weights": dict(self.weights), "kept": self.pays}


def choose_weights(
    outputs: Mapping[str, np.ndarray], better: str, rows: SampledRows, task: Task, loss: LossConfig
) -> Choice | None:
    """Returns the convex weights of two models with the least loss: log loss, or the loss of the training.

    Few rows hardly tell which model is better, so weights other than 1/2 cost something: as much as one more row if one
    model has all weight. To measure the gain, the weights are chosen on each half of the rows and used on the other.

    Args:
        outputs: Kind of model -> its logits, without the effect of class weights, or predictions: float32 [rows,
            columns].
        better: The kind that the blend is compared with.
        rows: Rows that no model was trained on.

    Returns:
        None if there are fewer than 20 rows.
    """
    if len(rows) < _MIN_ROWS:
        return None
    names, both = list(outputs), list(outputs.values())
    deviation = float(rows.labels.std()) if task == "regression" else 1.0
    measure = loss_of(task, loss, label_deviation=deviation or 1.0)

    def losses(output: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        found = measure(tf.constant(rows.labels[chosen]), tf.constant(output[chosen], tf.float32))
        return found.numpy().astype(np.float64) * rows.weights[chosen]

    def blended(share: float) -> np.ndarray:
        mean = np.asarray(_mean(both, (1 - share, share), loss))
        return np.exp(mean) if loss.logarithmic else mean

    drawn = _PRIOR * max(0.0, float(losses(outputs[better], np.arange(len(rows))).mean()))

    def best(chosen: np.ndarray) -> float:
        def total(share: float) -> float:
            return float(losses(blended(share), chosen).sum()) + drawn * (share - 0.5) ** 2

        found = optimize.minimize_scalar(total, bounds=(0.0, 1.0), method="bounded", options={"xatol": _WIDTH})
        return float(found.x)

    gains = np.zeros(len(rows))
    for fitted, used in halves(len(rows)):
        gains[used] = losses(outputs[better], used) - losses(blended(best(fitted)), used)
    share = best(np.arange(len(rows)))
    gain, reach = mean_and_reach(gains)
    return Choice(dict(zip(names, (1 - share, share), strict=True)), gain, reach, len(rows))


def blend(
    networks: Mapping[str, Network], weights: Mapping[str, float], like: str, task: Task, loss: LossConfig
) -> Network:
    """Returns the blend as one network with a head of its own, which calibration changes.

    Args:
        networks: Kind of model -> the trained model, which the blend contains.
        like: The kind whose inputs and classes describe those of the blend.
    """
    first = networks[like]
    given = keras_inputs(first.inputs)
    outputs = [apply_model(networks[kind].model, given, training=False) for kind in weights]
    mean = ConvexMean(tuple(weights.values()), loss, name="blend")(outputs)
    if task == "regression":
        headed = to_label_unit(mean, 1.0, 0.0, loss)
    else:
        headed = Affine(1.0, np.zeros(mean.shape[-1]), name="head")(mean)
    return Network(keras.Model(given, headed, name="blend_of_models"), first.inputs, first.config, first.classes)


class ConvexMean(keras.layers.Layer):
    """Outputs of several models, float32 [batch, columns] -> their weighted mean as the input of a head.

    With a loss of logarithms it is the mean of logarithms. The first column of quantiles, the prediction, is left out.
    """

    def __init__(self, weights: Sequence[float], loss: LossConfig, **options):
        super().__init__(dtype="float32", **options)
        self.shares, self.loss = tuple(weights), loss

    def call(self, outputs):
        if isinstance(self.loss, Quantile):
            outputs = [output[:, 1:] for output in outputs]
        return _mean(outputs, self.shares, self.loss)


def _mean(outputs: Sequence[Any], weights: Sequence[float], loss: LossConfig) -> Any:
    """Returns the weighted mean of outputs, or of their logarithms if that is what the loss learns."""
    parts = [keras.ops.log(output) for output in outputs] if loss.logarithmic else outputs
    return sum(weight * part for weight, part in zip(weights, parts, strict=True))
