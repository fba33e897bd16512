"""Cuts the train rows of a small table into folds: each row judges trees and linear models that did not learn from it.

Few validation rows hardly tell how many rounds are best, or which model is better; with folds all train rows tell.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fullpass.trainer.config import SMALL_UP_TO, SeveralModels, TrainingSpec
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs
from fullpass.trainer.trees.tree_columns import scored_inputs

FOLDS = 5
"""Each model of a fold learns from four fifths of the rows; ten folds would take twice the time."""
_FEWEST_ROWS = 100
"""Train rows at least: twenty in each fold."""
_FEWEST_OF_CLASS = 10
"""Train rows of a class, at least: two in each fold."""
_CHOOSE_UP_TO = 40_000
"""The most train rows whose folds choose the numbers of trees."""


def folds_of(data: TrainingData, spec: TrainingSpec) -> np.ndarray | None:
    """Returns the fold of each train row in the order of the split, int [rows], for `model: auto` on a small table.

    Returns:
        None for other models, with more than 1,500 train rows, and where train cannot be cut.
    """
    small = data.train.counts.weighted_rows <= SMALL_UP_TO
    return _cut(data, spec) if small and isinstance(spec.config.model, SeveralModels) else None


def folds_to_choose(data: TrainingData, spec: TrainingSpec) -> np.ndarray | None:
    """Returns folds by which the numbers of trees are chosen alone, int [rows].

    Returns:
        None where the splits keep groups or time apart, with more than 40,000 train rows, of which the validation rows
        are enough, and where train cannot be cut.
    """
    return _cut(data, spec) if data.of_single_rows and data.train.counts.weighted_rows <= _CHOOSE_UP_TO else None


def _cut(data: TrainingData, spec: TrainingSpec) -> np.ndarray | None:
    """Returns the fold of each train row.

    Returns:
        None with fewer than 100 train rows, with fewer than ten rows of a class, with several workers, and with lists
        or texts of many ids, whose scores are learned from all train rows.
    """
    counts, split = data.train.counts, data.train.split
    rows, of_classes = counts.weighted_rows, counts.class_rows[counts.class_rows > 0]
    if rows < _FEWEST_ROWS or data.train.workers.count > 1:
        return None
    if len(of_classes) and of_classes.min() < _FEWEST_OF_CLASS:
        return None
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    if scored_inputs(inputs):
        return None
    features, label, _ = split.sample(rows)
    columns = [v.to_list() if isinstance(v, tf.RaggedTensor) else v.numpy().tolist() for v in features.values()]
    keys = [repr(row) for row in zip(label.numpy().tolist(), *columns, strict=True)]
    found = np.empty(rows, int)
    found[split.sampled_numbers(rows)] = assign(keys, label.numpy() if len(of_classes) else None)
    return found if len(np.unique(found)) == FOLDS else None


def assign(keys: Sequence[str], classes: np.ndarray | None) -> np.ndarray:
    """Returns the fold of each row, int [rows]: in turn, so that classes have equal shares, and equal rows one fold.

    Args:
        keys: The content of each row, in random order.
        classes: The class of each row, [rows]; None for a regression.
    """
    _, first, key_of = np.unique(np.array(keys), return_index=True, return_inverse=True)
    by = first if classes is None else np.rec.fromarrays([classes[first], first])
    fold_of_key = np.empty(len(first), int)
    fold_of_key[np.argsort(by, kind="stable")] = np.arange(len(first)) % FOLDS
    return fold_of_key[key_of.ravel()]
