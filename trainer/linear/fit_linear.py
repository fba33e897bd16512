"""Fits the linear member of `model: auto`, a ridge, logistic, Poisson or Tweedie regression, and makes it a network.

Gradient steps approach these weights slowly, and with few rows they end before. scikit-learn finds them exactly.
"""

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy import sparse, special
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.fit.epoch_metrics import metrics_of_rows, monitored
from fullpass.trainer.fit.fit import Fitted
from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.linear.design import FARTHEST, Design
from fullpass.trainer.loss_config import variance_power
from fullpass.trainer.models.layers import Bias, IdTable, IdWeights
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import (
    ModelInput,
    dense_part,
    keras_inputs,
    model_inputs,
    transformed_outputs,
)
from fullpass.trainer.models.tasks import headed, logit_names, target_unit, targets_of
from fullpass.trainer.models.weight_semantics import Network

_LOG = logging.getLogger(__name__)
_PENALTIES = (1000.0, 100.0, 10.0, 1.0, 0.1)
"""Strengths of the squared penalty to choose from, relative to the loss of all rows together."""
_FOLDS = 5
"""Folds with which the penalty is chosen."""
_MAX_ROWS = 50_000
"""The most rows that a model is fitted on."""
_CHOICE_ROWS = 10_000
"""The most rows that its penalty is chosen on."""
_MOST_WEIGHTS = 1 << 21
"""The most weights, columns times outputs; a table with more has no linear model."""
_MOST_CELLS = 1 << 23
"""The most values of rows other than 0 times outputs: a step of the solver takes time in proportion to them."""
_CHOICE_CELLS = 1 << 21
"""The same for the rows that the penalty is chosen on."""
_MANY_WEIGHTS = 1 << 19
"""Weights, columns times outputs, above which one fold chooses the penalty: a step of the solver takes 0.2 µs per
weight, so that a fit of two million takes 10 s, whatever the number of rows."""
_WEIGHT_SECONDS = 5e-6
"""Seconds that the solver takes per weight of a fit, in 25 steps."""
_ITERATIONS = 200
"""Steps of the solver at most."""
_TOLERANCE = 1e-8
"""Residual at which ridge regression ends."""
_LOGISTIC_TOLERANCE = 1e-5
"""Gradient at which logistic regression ends."""
_QUICK_TOLERANCE = 3e-4
"""The same for more than `_MANY_WEIGHTS`: half of the steps, for an equal loss of other rows (docs/training.md)."""


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model.

    Attributes:
        loss: The metric that chooses between models, on the validation rows.
        again: Fits again, also on the validation rows; None if they judge the model.
        held: With folds, the output for each train row of weights that were not fitted to it, float32 [rows, columns],
            in the order of the split.
    """

    network: Network
    fitted: Fitted
    loss: float
    again: Callable[[], "LinearFit"] | None = None
    held: np.ndarray | None = None


def linear_seconds(inputs: Mapping[str, ModelInput], outputs: int) -> float:
    """Returns about how many processor seconds a linear model takes: one fit per penalty and fold, and two more."""
    weights = _width(inputs) * outputs
    fits = len(_PENALTIES) * (_FOLDS if weights <= _MANY_WEIGHTS else 1) + 2
    return fits * weights * _WEIGHT_SECONDS if weights <= _MOST_WEIGHTS else 0.0


def _width(inputs: Mapping[str, ModelInput]) -> int:
    return sum(item.size or item.width for item in inputs.values())


def fit_linear(data: TrainingData, spec: TrainingSpec, *, in_place_of_trees: bool = False) -> LinearFit | None:
    """Fits a linear model to up to 50,000 train rows, with the penalty that loses least in cross-validation on them.

    Args:
        in_place_of_trees: Whether trees are left out, so that four times the time is well spent.

    Returns:
        None where no linear model is fitted exactly: with the losses `absolute`, `huber` and `quantile`, with train
        rows of one class only, with more than two million weights, and where it takes minutes, as for long texts of
        many classes.
    """
    regression = _Regression(data, spec)
    inputs = model_inputs(transformed_outputs(spec.preprocessing, spec.tft_output), spec.tft_output)
    if not spec.config.training.loss.linear or _width(inputs) * regression.outputs > _MOST_WEIGHTS:
        return None
    began = time.monotonic()
    train = sample_rows(data.train.split, data.in_model, _MAX_ROWS)
    if len(np.unique(train.labels)) < 2:
        return None
    validation = sample_rows(data.validation.split, data.in_model, _MAX_ROWS)
    design = Design(list(inputs.values()), train)
    columns = [design(rows) for rows in (train, validation)]
    if columns[0].nnz * regression.outputs > _MOST_CELLS * (4 if in_place_of_trees else 1):
        return None
    numbers = data.train.split.sampled_numbers(len(train))
    folds = None if data.folds is None else data.folds[numbers]
    penalty, near = _choose_penalty(regression, columns[0], train.labels, train.weights, folds)
    first = regression.fit(columns[0], train.labels, train.weights, penalty, near)

    def network_of(found: _Weights) -> Network:
        model = _model(inputs, design, found, regression.head)
        return Network(model, inputs, spec.preprocessing, regression.names if any(regression.names) else ())

    seconds = time.monotonic() - began
    of_train = regression.metrics(columns[0], train.labels, train.weights, first)
    found = regression.metrics(columns[1], validation.labels, validation.weights, first)
    history = {"loss": of_train["loss"], **{f"val_{name}": value for name, value in found.items()}}
    fitted = Fitted({name: [value] for name, value in (history | {"step_ms": 1000 * seconds}).items()}, 1, seconds)
    own_validation = data.validation is not data.evaluation
    held = None
    if folds is not None:
        outputs = np.zeros((len(train), regression.outputs))
        for fold in np.unique(folds):
            rest, own = folds != fold, folds == fold
            outputs[own] = regression.fit(columns[0][rest], train.labels[rest], train.weights[rest], penalty)(
                columns[0][own]
            )
        held = regression.answers(outputs[np.argsort(numbers)])
    once = LinearFit(network_of(first), fitted, found[regression.judged_by], held=held)

    def again() -> LinearFit:
        labels, weights = ([getattr(rows, name) for rows in (train, validation)] for name in ("labels", "weights"))
        both = sparse.vstack(columns, format="csr"), np.concatenate(labels), np.concatenate(weights)
        return replace(once, network=network_of(regression.fit(*both, penalty, first)))

    return replace(once, again=again) if own_validation else once


@dataclass(frozen=True)
class _Weights:
    """The weights of a linear model.

    Attributes:
        kernel: float64 [columns of the design, outputs].
        bias: float64 [outputs].
    """

    kernel: np.ndarray
    bias: np.ndarray

    def __call__(self, columns: sparse.csr_matrix) -> np.ndarray:
        return np.asarray(columns @ self.kernel + self.bias)


class _Regression:
    """The regression of a task and a loss: ridge, logistic, Poisson or Tweedie."""

    def __init__(self, data: TrainingData, spec: TrainingSpec):
        self._task, self._loss = spec.preprocessing.label.task, spec.config.training.loss
        self.names = logit_names(self._task, data.statistics.names, self._loss)
        self.outputs = len(self.names)
        self.judged_by = monitored(self._task, self._loss)
        self._factors = data.statistics.factors
        self._unit = target_unit(self._task, self._loss, data.train.counts)
        self._losses = loss_of(self._task, self._loss, label_deviation=data.train.counts.error_unit)
        raw = keras.Input((self.outputs,), name="output")
        self._headed = keras.Model(raw, self.head(raw))

    def head(self, output: keras.KerasTensor) -> keras.KerasTensor:
        """Returns logits, or predictions in the unit of the label, after the layer `head`."""
        return headed(output, self._task, *self._unit, self._loss)

    def fit(
        self,
        columns: sparse.csr_matrix,
        labels: np.ndarray,
        weights: np.ndarray,
        penalty: float,
        near: _Weights | None = None,
    ) -> _Weights:
        """Returns the weights with the least loss and penalty.

        Args:
            near: Weights of a similar fit, from which that of many weights begins; None begins from 0.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of weak penalties, which lose more anyway
            if self._task != "regression":
                return self._logistic(columns, labels.astype(int), weights, penalty, near)
            model: Any = linear_model.Ridge(penalty, tol=_TOLERANCE)
            if power := variance_power(self._loss):
                alpha = penalty / len(labels)
                model = linear_model.TweedieRegressor(power=power, alpha=alpha, link="log", max_iter=_ITERATIONS)
            model.fit(columns, targets_of(labels, *self._unit, self._loss), weights)
        return _Weights(model.coef_.reshape(-1, 1), np.reshape(model.intercept_, 1))

    def metrics(
        self, columns: sparse.csr_matrix, labels: np.ndarray, weights: np.ndarray, found: _Weights
    ) -> dict[str, float]:
        """Returns the metrics of an epoch."""
        return metrics_of_rows(self._task, self._losses, labels, self.answers(found(columns)), weights)

    def answers(self, outputs: np.ndarray) -> np.ndarray:
        """Returns logits, or predictions in the unit of the label, float32 [rows, columns]."""
        return self._headed(tf.constant(outputs, tf.float32)).numpy()

    def _logistic(
        self,
        columns: sparse.csr_matrix,
        labels: np.ndarray,
        weights: np.ndarray,
        penalty: float,
        near: _Weights | None,
    ) -> _Weights:
        if len(self._factors):
            weights = weights * self._factors[labels]
        many = columns.shape[1] * self.outputs > _MANY_WEIGHTS
        ends = _QUICK_TOLERANCE if many else _LOGISTIC_TOLERANCE
        model = linear_model.LogisticRegression(C=1 / penalty, max_iter=_ITERATIONS, tol=ends, warm_start=many)
        if many and near is not None and len(np.unique(labels)) == self.outputs:
            model.coef_, model.intercept_ = near.kernel.T, near.bias
        model.fit(columns, labels, weights / weights.mean())
        kernel, bias = model.coef_.T, model.intercept_
        if self.outputs == 1 or len(model.classes_) == self.outputs:
            return _Weights(kernel, bias)
        if len(model.classes_) == 2:
            kernel, bias = np.hstack([0.0 * kernel, kernel]), np.array([0.0, bias[0]])
        # A class that train does not have is as likely as if it had half a row.
        rare = special.logsumexp(bias) - np.log(2 * len(labels))
        all_kernels, all_biases = np.zeros((len(kernel), self.outputs)), np.full(self.outputs, rare)
        all_kernels[:, model.classes_], all_biases[model.classes_] = kernel, bias
        return _Weights(all_kernels, all_biases)


def _choose_penalty(
    regression: _Regression,
    columns: sparse.csr_matrix,
    labels: np.ndarray,
    weights: np.ndarray,
    fold_of: np.ndarray | None = None,
) -> tuple[float, _Weights | None]:
    """Returns the penalty with the least loss on rows that the weights were not fitted to, in five folds of train.

    Also returns the weights that a fold found with it, if any. A small table has too few validation rows to tell; these
    are all rows, each once. Of many weights one fold tells.

    Args:
        fold_of: The fold of each row, int [rows]; if None, rows are dealt at random, in a large table only some.
    """
    if fold_of is None:
        cells = columns.nnz * regression.outputs
        rows = min(len(labels), _CHOICE_ROWS, len(labels) * _CHOICE_CELLS // max(1, cells))
        fold_of = np.random.default_rng(0).permutation(rows) % _FOLDS
    losses = np.zeros(len(_PENALTIES))
    fits: list[_Weights] = []
    for fold in range(_FOLDS if columns.shape[1] * regression.outputs <= _MANY_WEIGHTS else 1):
        rest, held = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        if not len(held) or len(np.unique(labels[rest])) < 2:
            continue
        fits = []
        for i, penalty in enumerate(_PENALTIES):
            near = fits[-1] if fits else None
            found = regression.fit(columns[rest], labels[rest], weights[rest], penalty, near)
            fits.append(found)
            losses[i] += (
                weights[held].sum() * regression.metrics(columns[held], labels[held], weights[held], found)["loss"]
            )
    _LOG.info("linear: losses of the penalties %s: %s", _PENALTIES, losses.tolist())
    best = int(np.argmin(losses))
    return _PENALTIES[best], fits[best] if fits else None


def _model(
    inputs: Mapping[str, ModelInput],
    design: Design,
    found: _Weights,
    head: Callable[[keras.KerasTensor], keras.KerasTensor],
) -> keras.Model:
    """Returns the weights as layers, which compute what the design does and its product with the weights."""
    weights, outputs = design.split(found.kernel), len(found.bias)
    numbers = [item for item in inputs.values() if item.output.kind != "ids"]
    single = [item for item in inputs.values() if item.output.kind == "ids" and not item.output.multi]
    parts = []

    def add(layer: keras.layers.Layer, items: Sequence[ModelInput], *given: Any, **options: Any) -> None:
        parts.append(layer(*given, **options))
        layer.set_weights([np.concatenate([weights[item.name] for item in items])])

    if numbers:
        mean, deviation = np.concatenate([design.moments[item.name] for item in numbers], axis=1).astype(np.float32)
        dense = dense_part(inputs)
        x = keras.layers.Concatenate()(dense) if len(dense) > 1 else dense[0]
        x = keras.ops.divide(keras.ops.subtract(x, mean[None]), deviation[None])
        layer = keras.layers.Dense(outputs, use_bias=False, name="numbers")
        add(layer, numbers, keras.ops.clip(x, -FARTHEST, FARTHEST))
    if single:
        layer = IdWeights([item.size for item in single], outputs, name="ids")
        add(layer, single, [item.keras_input for item in single])
    for item in inputs.values():
        if item.output.multi:
            how = "sqrt_n" if item.output.tf_idf else "sum"
            add(IdTable(item.size, outputs), [item], item.keras_input, item.weights, pool=how)
    bias = Bias(name="bias")
    total = bias(keras.layers.Add()(parts) if len(parts) > 1 else parts[0])
    bias.set_weights([found.bias])
    return keras.Model(keras_inputs(inputs), head(total), name="linear")
