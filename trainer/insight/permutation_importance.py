"""Permutation importance: how much worse a network predicts when one feature's values are dealt to other rows.

Source: Breiman, Random Forests (2001); Fisher, Rudin and Dominici, All Models are Wrong, but Many are Useful (2019).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.insight.sampled_rows import SampledRows
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.weight_semantics import Network

_ROWS_IN_ALL = 400_000
_FEWEST_ROWS, _MOST_ROWS = 500, 5000
_REACH = 1.96


def measure_importance(network: Network, evaluation: SampledRows, task: Task) -> list[dict[str, Any]]:
    """Returns the importance of each feature, the largest first.

    All that a feature becomes (the parts of a date, an indicator, the crosses it stands in) is dealt together, by one
    permutation of the rows. The importance is the mean growth of a row's loss: of the log loss, or, of a regression, of
    the squared error as a share of the label's variance. Its interval of 95 % follows from how that growth differs from
    row to row. Features that tell the same share their importance: each alone is hardly missed.

    Args:
        network: The trained network.
        evaluation: Rows of the eval split.
        task: The task of the label.

    Returns:
        Per feature: feature, importance, reach.
    """
    groups = dict(_groups(network))
    evaluation = evaluation.first(max(_FEWEST_ROWS, min(_MOST_ROWS, _ROWS_IN_ALL // max(len(groups), 1))))
    if len(evaluation) < 2 or (task == "regression" and evaluation.labels.std() == 0):
        return []
    usual = _losses(evaluation.logits(network), evaluation, task)
    order = np.random.default_rng(1).permutation(len(evaluation))
    found = []
    for feature, names in groups.items():
        logits = evaluation.logits(network, {name: evaluation.features[name][order] for name in names})
        growth = (_losses(logits, evaluation, task) - usual) * evaluation.weights / evaluation.weights.mean()
        reach = _REACH * growth.std() / math.sqrt(len(growth))
        found.append({"feature": feature, "importance": float(growth.mean()), "reach": float(reach)})
    return sorted(found, key=lambda entry: -entry["importance"])


def _groups(network: Network) -> Iterator[tuple[str, list[str]]]:
    """Yields each feature with the inputs that it decides, crosses included."""
    crosses = {cross.feature_name: cross for cross in network.config.crosses}
    of_feature = {item.output.feature for item in network.inputs.values()}
    for feature in sorted(of_feature - set(crosses)):
        parts = tuple(f"{feature}.{part}" for part in getattr(network.config.features.get(feature), "parts", ()))
        within = {name for name, cross in crosses.items() if set(cross.inputs) & {feature, *parts}}
        items = [item for item in network.inputs.values() if item.output.feature in {feature, *within}]
        yield feature, [t.name for item in items for t in (item.keras_input, item.weights) if t is not None]


def _losses(logits: np.ndarray, rows: SampledRows, task: Task) -> np.ndarray:
    """Returns the loss of each row, float64 [rows]."""
    loss = loss_of(task, label_deviation=float(rows.labels.std()) if task == "regression" else 1.0)
    return loss(tf.constant(rows.labels), tf.constant(logits)).numpy().astype(np.float64)
