"""Blends the models of `model: auto`: chooses convex weights on validation rows, and builds the blend as one model.

A weighted mean of two models that err differently often errs less than either (Breiman, Stacked Regressions, 1996;
convex weights of a few models are a few numbers, which some hundred rows determine).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy import optimize

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, halves, mean_and_reach
from fullpass.trainer.loss_config import LossConfig, Quantile
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import apply_model, keras_inputs
from fullpass.trainer.models.tasks import headed
from fullpass.trainer.models.weight_semantics import Network

_STEP = 1e-3
"""Difference of weights with which the optimizer measures a slope."""
_MIN_ROWS = 20
"""Rows that weights are chosen on at least."""
_PRIOR = 5.0
"""The cost of the squared distance from equal weights, in rows. The validation rows also ended the training of trees
and network, so they flatter them; without a cost the weights of small tables lose 0.3 % more."""
_NETWORK_SHARE = 0.2
"""With folds, the share that the network is drawn to. The validation rows ended its training, so they flatter it, but
not the other models."""
_NETWORK_PRIOR = 60.0
"""The cost of the squared distance from that share, in rows."""
_TELLING = 2_000
"""Rows from which a gain within chance is too small to be worth several models; fewer rows can prove hardly any."""
_LEAST = 0.05
"""A model of less weight is left out."""


@dataclass(frozen=True)
class Choice:
    """The weights of several models, and what their blend gains over the best model.

    Attributes:
        weights: Kind of model -> its weight, 0 if it is left out; they add up to 1.
        gain: The mean loss that the blend saves, per row that its weights were not chosen on.
        reach: Half the width of the 95 % interval of `gain`.
        rows: The number of rows.
    """

    weights: Mapping[str, float]
    gain: float
    reach: float
    rows: int

    @property
    def parts(self) -> dict[str, float]:
        """The weights of the models that are not left out."""
        return {kind: weight for kind, weight in self.weights.items() if weight > 0}

    @property
    def pays(self) -> bool:
        """Whether several models have weight, and the blend beats the best one, on many rows beyond chance."""
        least = self.reach if self.rows >= _TELLING else 0.0
        return len(self.parts) > 1 and self.gain > least

    def record(self) -> dict[str, Any]:
        """Returns the entry `blend` of training.json."""
        return {**vars(self), "weights": dict(self.weights), "kept": self.pays}


def choose_weights(
    outputs: Mapping[str, np.ndarray],
    best: np.ndarray,
    rows: SampledRows,
    task: Task,
    loss: LossConfig,
    usual: Sequence[float] | None = None,
    prior: float = _PRIOR,
) -> Choice | None:
    """Returns the convex weights of models with the least loss: log loss, or the loss of the training.

    Few rows hardly tell which model is better, so unequal weights cost something: as much as 2.5 more rows if one of
    two models has all weight. To measure the gain, the weights are chosen on each half of the rows and used on the
    other.

    Args:
        outputs: Kind of model -> its logits, without the effect of class weights, or predictions: float32 [rows,
            columns].
        best: The output of the model that the blend is compared with, of the same form.
        rows: Rows that no model was trained on.
        usual: The weights that others cost something against; None for equal ones.
        prior: The cost of the squared distance from them, in rows.

    Returns:
        None if there are fewer than 20 rows.
    """
    if len(rows) < _MIN_ROWS:
        return None
    every = list(outputs.values())
    drawn_to = np.full(len(every), 1 / len(every)) if usual is None else np.array(usual)
    deviation = rows.label_deviation if task == "regression" else 1.0
    measure = loss_of(task, loss, label_deviation=deviation or 1.0)

    def losses(output: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        found = measure(tf.constant(rows.labels[chosen]), tf.constant(output[chosen], tf.float32))
        return found.numpy().astype(np.float64) * rows.weights[chosen]

    all_rows = np.ones(len(rows), bool)
    drawn = prior * max(0.0, float(losses(best, all_rows).mean()))

    def weights_on(chosen: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Returns the weights of the models in `kept` with the least loss on rows (masks); below 0.05 they are 0."""

        def total(weights: np.ndarray) -> float:
            apart = float(((weights[kept] - drawn_to[kept] / drawn_to[kept].sum()) ** 2).sum())
            return (float(losses(blended(every, weights, loss), chosen).sum()) + drawn * apart) / float(chosen.sum())

        found = _least(total, kept)
        rest = found >= _LEAST
        return found if rest[kept].all() else weights_on(chosen, rest)

    every_model = np.ones(len(every), bool)
    gains = np.zeros(len(rows))
    for fitted, used in halves(len(rows)):
        weights = weights_on(fitted, every_model)
        gains[used] = losses(best, used) - losses(blended(every, weights, loss), used)
    gain, reach = mean_and_reach(gains)
    return Choice(dict(zip(outputs, weights_on(all_rows, every_model).tolist(), strict=True)), gain, reach, len(rows))


def choose_with_folds(
    outputs: Mapping[str, np.ndarray],
    held: Mapping[str, np.ndarray],
    best: str,
    rows: SampledRows,
    train: SampledRows,
    task: Task,
    loss: LossConfig,
) -> Choice | None:
    """Returns the weights of a network and other models: by `rows` for the network, by train rows among the others.

    Args:
        outputs: As of `choose_weights`, on `rows`, of all models; one of them is not in `held`.
        held: The same of the train rows, of models that did not learn from them.
        rows: Rows that ended the training of the network, and had no part in that of the others.
    """
    others = choose_weights(held, next(iter(held.values())), train, task, loss)
    if others is None:
        return None
    (network,) = set(outputs) - set(held)
    rest = blended([outputs[kind] for kind in held], list(others.weights.values()), loss)
    usual = (1 - _NETWORK_SHARE, _NETWORK_SHARE)
    pair = {"": rest, network: outputs[network]}
    found = choose_weights(pair, outputs[best], rows, task, loss, usual, _NETWORK_PRIOR)
    if found is None:
        return None
    weights = {kind: share * found.weights[""] for kind, share in others.weights.items()}
    return replace(found, weights={kind: (weights | {network: found.weights[network]})[kind] for kind in outputs})


def blended(outputs: Sequence[np.ndarray], weights: Sequence[float] | np.ndarray, loss: LossConfig) -> np.ndarray:
    """Returns the output of a blend, [rows, columns], from those of its models."""
    mean = np.asarray(_mean(outputs, list(map(float, weights)), loss))
    return np.exp(mean) if loss.logarithmic else mean


def _least(loss: Callable[[np.ndarray], float], kept: np.ndarray) -> np.ndarray:
    """Returns the convex weights with the least loss, those that are not in `kept` 0; float64 [models]."""
    full = np.zeros(len(kept))

    def at(weights: np.ndarray) -> np.ndarray:
        full[kept] = np.clip(weights, 0.0, 1.0) / np.clip(weights, 0.0, 1.0).sum()
        return full.copy()

    count = int(kept.sum())
    sums_to_one = {"type": "eq", "fun": lambda weights: weights.sum() - 1.0}
    # Outputs are float32, so a shorter step would measure their rounding.
    found = optimize.minimize(
        lambda weights: loss(at(weights)),
        np.full(count, 1 / count),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints=sums_to_one,
        options={"eps": _STEP, "ftol": 1e-9},
    )
    return at(found.x)


def blend(networks: Mapping[str, Network], weights: Mapping[str, float], task: Task, loss: LossConfig) -> Network:
    """Returns the blend as one network with a head of its own, which calibration changes.

    Args:
        networks: Kind of model -> the trained model, which the blend contains; the inputs of a network describe those
            of the blend.
        weights: Kind of model -> its weight.
    """
    first = networks.get("wide_deep") or next(iter(networks.values()))
    given = keras_inputs(first.inputs)
    outputs = [apply_model(networks[kind].model, given, training=False) for kind in weights]
    mean = ConvexMean(tuple(weights.values()), loss, name="blend")(outputs)
    model = keras.Model(given, headed(mean, task, 1.0, 0.0, loss), name="blend_of_models")
    return Network(model, first.inputs, first.config, first.classes)


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
