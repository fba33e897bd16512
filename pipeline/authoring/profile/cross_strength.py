"""Finds pairs of columns that predict the label better as a cross than as two separate columns."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fullpass.pipeline.authoring.profile.strength import Target, cross_fitted, group_means

_FEWEST_ROWS = 1000
_LEAST_GAIN, _LEAST_GAIN_OF_FEW, _FEW_ROWS = 0.005, 0.01, 5000
_MOST_INPUTS = 12
_MOST_CROSSES = 3
_SAME = 1.2
_PRIOR_ROWS = 20.0
_ROUNDS = 3


@dataclass(frozen=True)
class Pair:
    """Two inputs worth crossing.

    Attributes:
        gain: share of the residual of both separate effects that the cross explains, on rows not used for fitting.
        combinations: number of distinct pairs of values in the sample.
    """

    inputs: tuple[str, str]
    gain: float
    combinations: int


def find_pairs(groups: Mapping[str, np.ndarray], target: Target) -> tuple[Pair, ...]:
    """Returns up to three pairs worth crossing, best first; none with fewer than 1,000 rows.

    Args:
        groups: input of a cross -> int [rows], the value of each row. Only the strongest inputs are tried.
        target: the label. For several classes, it is the commonest class against the rest.
    """
    known = ~np.isnan(target.y)
    if known.sum() < _FEWEST_ROWS or target.task == "multilabel":
        return ()
    y = _one_number(target, known)
    inputs = {name: np.unique(column[known], return_inverse=True)[1] for name, column in groups.items()}
    strengths = {name: float(-((y - cross_fitted(column, y)) ** 2).mean()) for name, column in inputs.items()}
    best = sorted(inputs, key=lambda name: -strengths[name])[:_MOST_INPUTS]
    pairs = [_pair((a, b), inputs[a], inputs[b], y) for a, b in itertools.combinations(best, 2)]
    least = _LEAST_GAIN if len(y) >= _FEW_ROWS else _LEAST_GAIN_OF_FEW
    chosen: list[Pair] = []
    for pair in sorted((p for p in pairs if p.gain >= least), key=lambda p: -p.gain):
        if len(chosen) < _MOST_CROSSES and not any(_say_the_same(pair, other, inputs) for other in chosen):
            chosen.append(pair)
    return tuple(chosen)


def _say_the_same(one: Pair, other: Pair, inputs: Mapping[str, np.ndarray]) -> bool:
    """Returns whether two pairs group the rows in nearly the same way, like month and the month of a date."""
    both = np.unique(np.column_stack([inputs[name] for name in {*one.inputs, *other.inputs}]), axis=0)
    return len(both) <= _SAME * max(one.combinations, other.combinations)


def _one_number(target: Target, known: np.ndarray) -> np.ndarray:
    y = target.y[known]
    if target.task == "multiclass":
        classes, counts = np.unique(y, return_counts=True)
        return (y == classes[counts.argmax()]).astype(float)
    return np.clip(y, *np.quantile(y, (0.005, 0.995))) if target.task == "regression" else y


def _pair(names: tuple[str, str], a: np.ndarray, b: np.ndarray, y: np.ndarray) -> Pair:
    """Returns the gain of a cross: the share of the residual of the additive effects that the cross explains."""
    both = np.unique(a.astype(np.int64) * (int(b.max()) + 1) + b, return_inverse=True)[1]
    half = np.random.default_rng(len(y)).random(len(y)) < 0.5
    left = before = 0.0
    for fold in (False, True):
        fitted, tried = half == fold, half != fold
        of_a, of_b, mean = _added(a[fitted], b[fitted], y[fitted], int(a.max()) + 1, int(b.max()) + 1)
        residual = y - mean - of_a[a] - of_b[b]
        together = group_means(both[fitted], residual[fitted], int(both.max()) + 1, _PRIOR_ROWS)
        before += float((residual[tried] ** 2).sum())
        left += float(((residual[tried] - together[both[tried]]) ** 2).sum())
    return Pair(names, 1 - left / before if before > 0 else 0.0, int(both.max()) + 1)


def _added(
    a: np.ndarray, b: np.ndarray, y: np.ndarray, size_a: int, size_b: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns additive effects of the values of a and b, and the mean of y, fitted by backfitting."""
    mean = float(y.mean())
    of_a, of_b = np.zeros(size_a), np.zeros(size_b)
    for _ in range(_ROUNDS):
        of_a = _effect(a, y - mean - of_b[b], size_a)
        of_b = _effect(b, y - mean - of_a[a], size_b)
    return of_a, of_b, mean


def _effect(groups: np.ndarray, rest: np.ndarray, size: int) -> np.ndarray:
    sums = np.bincount(groups, weights=rest, minlength=size)
    return sums / (np.bincount(groups, minlength=size) + _PRIOR_ROWS)
