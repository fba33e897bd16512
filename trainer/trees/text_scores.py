"""Turns texts and long lists of ids into a few numbers for trees: scores of a linear model, and components.

Trees split on one column at a time, and a text has one per token. A linear model reads all tokens together, so its
score is a column that trees can use. A row's score must not come from a model that learned its label, because the
trees would trust it more than it deserves (Wolpert 1992, Stacked Generalization). So train rows have the scores of
models that learned from other rows; all other rows have those of a model of all train rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from scipy import sparse

from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.placement import InModel, with_model_features
from fullpass.trainer.models.layers import IdTable
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.trees.tree_rows import Targets, batch_rows

MAX_SCORES = 100
"""The most scores of a text; of more classes, the most frequent have one."""
COMPONENTS = 16
"""Columns of a text that do not depend on the label: its largest principal components."""
_FOLDS = 5
"""Each train row has the scores of models that learned from four fifths of the others."""
_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Factors of the squared weights in the loss to choose from; the mean weight of a row is 1."""
_LEARNED_BYTES = 1 << 30
"""The most bytes of rows, as a split stores them, that the models learn from; of more, they learn from every n-th."""
_TOLERANCE = 1e-3
"""The solver ends at a residual of this share of the first one: scores are inputs, not results."""
_MOST_STEPS = 100
"""Steps of the solver at most, for texts for which it does not reach `_TOLERANCE`."""
_SPARE = 8
"""Further columns of the random basis of the components of texts (Halko et al., 2011, Finding Structure with
Randomness)."""
_PASSES = 4
"""Its power iterations, with which the components are exact enough to be inputs."""


@dataclass(frozen=True, eq=False)
class TextScores:
    """What trees read of a text; the models multiply rows of `id_rows`.

    Attributes:
        kernel: The models of all train rows, and the components, float32 [ids, scores + components].
        of_folds: The models for the train rows of each fold, float32 [folds, ids, scores].
        every: The models learned from every n-th row; its number divided by n, modulo the folds, is its fold.
    """

    kernel: np.ndarray
    of_folds: np.ndarray
    every: int = 1

    @property
    def scores(self) -> int:
        """The number of scores; the components follow them."""
        return self.of_folds.shape[2]

    def of_train(self, rows: sparse.csr_matrix, numbers: np.ndarray) -> np.ndarray:
        """Returns the scores of train rows, float32 [rows, scores].

        Args:
            rows: As of `id_rows`.
            numbers: The numbers of the rows in the order of the split, int64 [rows].
        """
        found = np.zeros((len(numbers), self.scores), np.float32)
        folds = numbers // self.every % len(self.of_folds)
        for fold, kernel in enumerate(self.of_folds):
            found[folds == fold] = rows[folds == fold] @ kernel
        return found

    def columns(self, item: ModelInput) -> keras.KerasTensor:
        """Returns the scores and components of an input of a model, float32 [batch, scores + components]."""
        table = IdTable(*self.kernel.shape, trainable=False, dtype="float32")
        found = table(item.keras_input, item.weights, pool="sqrt_n")
        table.set_weights([self.kernel])
        return found


def id_rows(item: ModelInput, features: Mapping[str, tf.Tensor]) -> sparse.csr_matrix:
    """Returns the weights of the ids of each row, float32 [rows, ids], each row of length 1; 0 without ids.

    Args:
        features: The features of a batch by input name; ids int64 [rows, n], 0 for padding.
    """
    ids = features[item.keras_input.name].numpy()
    present = ids != 0
    given = np.ones(ids.shape, np.float32) if item.weights is None else features[item.weights.name].numpy()
    share = np.where(present, given, 0.0)
    length = np.sqrt((share**2).sum(axis=1, keepdims=True))
    share /= np.where(length > 0, length, 1.0)
    starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    found = sparse.csr_matrix((share[present], ids[present], starts), (len(ids), item.size))
    found.sum_duplicates()
    return found


def learn_scores(
    split: Split, items: Sequence[ModelInput], targets: Targets, factors: Sequence[float], in_model: InModel | None
) -> dict[str, TextScores]:
    """Reads the train split once and returns the scores of texts and lists, by name of transformed feature.

    Args:
        targets: Returns what the linear models learn, float [rows, scores], from labels.
        factors: The factor of the weight per class; empty for none.
    """
    if not items:
        return {}
    every = -(-split.counts.weighted_rows * split.row_bytes // _LEARNED_BYTES)
    parts: dict[str, list[sparse.csr_matrix]] = {item.name: [] for item in items}
    wanted, weights, first = [], [], 0
    for batch in split.batches(BatchOrder(batch_size=batch_rows(split)), tuple(factors)):
        chosen = np.arange(first, first + len(batch[2])) % every == 0
        features = with_model_features(batch[0], in_model)
        for item in items:
            parts[item.name].append(id_rows(item, features)[chosen])
        wanted.append(targets(batch[1].numpy()[chosen]))
        weights.append(batch[2].numpy()[chosen])
        first += len(chosen)
        if first >= split.counts.weighted_rows:
            break
    y, weight = np.concatenate(wanted), np.concatenate(weights)
    found = {}
    for item in items:
        rows = sparse.vstack(parts.pop(item.name), "csr")
        found[item.name] = _learned(rows, y, weight, every)
    return found


def _learned(rows: sparse.csr_matrix, y: np.ndarray, weight: np.ndarray, every: int) -> TextScores:
    weight = weight / weight.mean()
    y = y - np.average(y, axis=0, weights=weight)
    folds = np.arange(len(y)) % _FOLDS

    def fitted(chosen: np.ndarray, strength: float) -> np.ndarray:
        return ridge(rows, y, weight * chosen, strength)

    held_out = rows[folds == 0]

    def error(strength: float) -> float:
        missed = held_out @ fitted(folds != 0, strength) - y[folds == 0]
        return float(weight[folds == 0] @ (missed**2).sum(axis=1))

    strength = min(_STRENGTHS, key=error)
    of_folds = np.stack([fitted(folds != fold, strength) for fold in range(_FOLDS)])
    kernel = np.concatenate([fitted(folds >= 0, strength), components(rows, COMPONENTS)], axis=1)
    return TextScores(kernel.astype(np.float32), of_folds.astype(np.float32), every)


def ridge(rows: sparse.csr_matrix, y: np.ndarray, weight: np.ndarray, strength: float) -> np.ndarray:
    """Returns the weights of ridge regressions without intercept, [columns, targets], by conjugate gradients.

    Args:
        y: The targets, [rows, targets].
        weight: The weight of the squared error of each row, float [rows]. Rows that do not count have 0, because a copy
            of the others would take as much memory as all else of a training on long texts.
        strength: The factor of the squared weights in the loss.
    """
    weight = weight[:, None]
    residual = rows.T @ (weight * y)
    weights, direction = np.zeros_like(residual), residual
    size = (residual**2).sum(axis=0)
    enough = _TOLERANCE**2 * size
    for _ in range(_MOST_STEPS):
        if (size <= enough).all():
            break
        image = rows.T @ (weight * (rows @ direction)) + strength * direction
        curvature = (direction * image).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
        weights, residual = weights + step * direction, residual - step * image
        before, size = size, (residual**2).sum(axis=0)
        direction = residual + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * direction
    return weights


def components(rows: sparse.csr_matrix, count: int) -> np.ndarray:
    """Returns the first right singular vectors of a matrix, [columns, up to count], by random projection.

    Source: Halko, Martinsson, Tropp 2011, Finding Structure with Randomness, algorithm 4.4.
    """
    basis = rows @ np.random.default_rng(0).normal(size=(rows.shape[1], count + _SPARE))
    for _ in range(_PASSES):
        basis = rows @ (rows.T @ np.linalg.qr(basis)[0])
    of_basis = (rows.T @ np.linalg.qr(basis)[0]).T
    return np.linalg.svd(of_basis, full_matrices=False)[2][:count].T
