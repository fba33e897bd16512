"""The design matrix of a linear model: transformed rows as a sparse matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import sparse

from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.records.blocks import IMAGE_RANK

FARTHEST = 10.0
"""The largest distance of a number from its mean, in deviations; a number farther out is clipped."""
_MAX_PIXELS = 16
"""Pixels of a side of an image at most, of which each is a column."""


class Design:
    """Rows as a sparse matrix: numbers standardized by the train rows and clipped to 10 deviations, ids one-hot.

    Lists of ids and texts are bags: the number of occurrences, or the sum of weights, per id except 0; of weights by
    tf-idf each row has length 1. Images are subsampled to at most 16 pixels a side, whose values are numbers.

    Attributes:
        moments: Mean and deviation of the numbers of an input, float [width] each, by name of transformed feature.
    """

    def __init__(self, inputs: Sequence[ModelInput], train: SampledRows):
        self._inputs = inputs
        self.moments: Mapping[str, tuple[np.ndarray, np.ndarray]] = {
            item.name: _moments(_thinned(train.padded(item.keras_input.name)))
            for item in inputs
            if item.output.kind != "ids"
        }

    def __call__(self, rows: SampledRows) -> sparse.csr_matrix:
        """Returns float [rows, columns], those of one input after those of the other."""
        return sparse.hstack([self._columns(item, rows) for item in self._inputs], format="csr")

    def split(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the rows of a matrix with a row per column of the design, by name of transformed feature."""
        widths = [len(self.moments[i.name][0]) if i.name in self.moments else i.size for i in self._inputs]
        parts = np.split(weights, np.cumsum(widths)[:-1])
        return {item.name: part for item, part in zip(self._inputs, parts, strict=True)}

    def _columns(self, item: ModelInput, rows: SampledRows) -> sparse.spmatrix:
        name = item.keras_input.name
        if item.output.kind != "ids":
            values = _thinned(rows.padded(name))
            mean, deviation = self.moments[item.name]
            standard = (values.reshape(len(rows), -1) - mean) / deviation
            return sparse.csr_matrix(np.clip(np.nan_to_num(standard), -FARTHEST, FARTHEST))
        ids, starts = _flat(rows.features[name])
        amounts = np.ones(len(ids)) if item.weights is None else _flat(rows.features[item.weights.name])[0]
        if item.output.multi:
            amounts = np.where(ids == 0, 0.0, amounts)  # 0 pads lists of ids
        if item.output.tf_idf:
            row = np.repeat(np.arange(len(rows)), np.diff(starts))
            length = np.sqrt(np.bincount(row, amounts**2, len(rows)))
            amounts = amounts / np.where(length > 0, length, 1.0)[row]
        found = sparse.csr_matrix((amounts, ids, starts), shape=(len(rows), item.size))
        found.eliminate_zeros()
        return found


def _flat(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of all rows, and where those of each row begin and those of the last one end."""
    if isinstance(values, tf.RaggedTensor):
        return values.values.numpy(), values.row_splits.numpy()
    array = np.asarray(values)
    return array.ravel(), np.arange(len(array) + 1) * (array.size // max(1, len(array)))


def _thinned(values: np.ndarray) -> np.ndarray:
    """Returns numbers unchanged, and images subsampled."""
    if values.ndim < IMAGE_RANK:
        return values
    steps = [-(-side // _MAX_PIXELS) for side in values.shape[1:3]]
    return values[:, :: steps[0], :: steps[1]].astype(np.float32)


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    matrix = values.reshape(len(values), -1)
    mean, deviation = (each.astype(values.dtype) for each in (matrix.mean(0, np.float64), matrix.std(0, np.float64)))
    return mean, np.where(deviation > 0, deviation, 1.0)
