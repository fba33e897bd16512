"""Permutation importance: how much worse a network predicts when the values of a feature are permuted over the rows.

Source: Breiman, Random Forests (2001); Fisher, Rudin and Dominici, All Models are Wrong, but Many are Useful (2019).
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, mean_and_reach
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import inputs_by_feature
from fullpass.trainer.models.weight_semantics import Network

_LOG = logging.getLogger(__name__)

_ROWS_IN_ALL = 400_000
"""Rows of the predictions for all features together, which limits the time."""
_MIN_ROWS = 500
"""Rows per feature at least, if the eval split has them."""
_MAX_ROWS = 5000
"""Rows per feature at most: four times as many would halve the interval, in four times the time."""
MAX_FEATURES = 256
"""With more features, only the strongest are measured: the time of a prediction grows with their number as well."""

_Growth = Callable[[Sequence[str]], np.ndarray]
"""Names of inputs -> how much the loss of each row grows when these inputs are permuted, float64 [rows]."""


def measure_importance(network: Network, evaluation: SampledRows, task: Task) -> list[dict[str, Any]]:
    """Returns the importance of each feature, the largest first.

    All inputs that derive from a feature (the parts of a date, an indicator, the crosses that contain it) are permuted
    together, by one permutation of the rows. The importance is the mean growth of a row's loss: the log loss or, for a
    regression, the squared error as a share of the label's variance. Its 95 % interval follows from the variation of
    that growth between rows. Features with the same information share their importance, because the model can replace
    each one by the others.

    With more than MAX_FEATURES features, at most half of MAX_FEATURES are measured. The features are divided into as
    many blocks, each of which is permuted as one. Then the features of the blocks that matter most are measured.

    Returns:
        Per measured feature: feature, importance, reach.
    """
    groups = dict(_groups(network))
    evaluation = evaluation.first(max(_MIN_ROWS, min(_MAX_ROWS, _ROWS_IN_ALL // max(len(groups), 1))))
    if len(evaluation) < 2 or (task == "regression" and evaluation.label_deviation == 0):
        return []
    predict = evaluation.predictor(network)
    usual = _losses(predict({}), evaluation, task)
    order = np.random.default_rng(1).permutation(len(evaluation))

    def growth_of(names: Sequence[str]) -> np.ndarray:
        logits = predict({name: tf.gather(evaluation.features[name], order) for name in names})
        return (_losses(logits, evaluation, task) - usual) * evaluation.weights / evaluation.weights.mean()

    found = []
    for feature, names in (_strongest(groups, growth_of) if len(groups) > MAX_FEATURES else groups).items():
        mean, reach = mean_and_reach(growth_of(names))
        found.append({"feature": feature, "importance": mean, "reach": reach})
    return sorted(found, key=lambda entry: -entry["importance"])


def _strongest(groups: Mapping[str, Sequence[str]], growth_of: _Growth) -> dict[str, Sequence[str]]:
    """Returns the features of the blocks that matter most, at most half of MAX_FEATURES."""
    names, half = list(groups), MAX_FEATURES // 2
    size = math.ceil(len(names) / half)
    blocks = [names[first : first + size] for first in range(0, len(names), size)]
    growth = [growth_of([name for feature in block for name in groups[feature]]).mean() for block in blocks]
    best = sorted(zip(growth, blocks, strict=True), key=lambda pair: -pair[0])
    kept = [feature for _, block in best for feature in block][:half]
    _LOG.info("importance: %d of %d features are measured, those of the strongest blocks", len(kept), len(groups))
    return {feature: groups[feature] for feature in kept}


def _groups(network: Network) -> Iterator[tuple[str, list[str]]]:
    """Yields each feature with the inputs that derive from it, crosses included."""
    crosses = {cross.feature_name: cross for cross in network.config.crosses}
    of_feature = inputs_by_feature(network.inputs.values())
    for feature in sorted(of_feature.keys() - crosses.keys()):
        parts = tuple(f"{feature}.{part}" for part in getattr(network.config.features.get(feature), "parts", ()))
        within = [name for name, cross in crosses.items() if set(cross.inputs) & {feature, *parts}]
        items = [item for name in (feature, *within) for item in of_feature.get(name, ())]
        yield feature, [tensor.name for item in items for tensor in item.tensors]


def _losses(logits: np.ndarray, rows: SampledRows, task: Task) -> np.ndarray:
    """Returns the loss of each row, float64 [rows]."""
    loss = loss_of(task, label_deviation=rows.label_deviation) if task == "regression" else loss_of(task)
    return loss(tf.constant(rows.labels), tf.constant(logits)).numpy().astype(np.float64)
