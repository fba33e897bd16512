"""Weights and labels of every size: each metric of each slice equals scikit-learn's, and counts are rows."""

from pathlib import Path

import numpy as np
from sklearn import metrics

from fullpass.components.evaluation.measure.formulas import COUNT
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slices import SliceKey

_BINARY = {
    "auc": (
        metrics.roc_auc_score,
        2e-2,
    ),  # of buckets of scores: rows of one bucket are ties, and a row may weigh more than all others
    "accuracy": (lambda y, s, sample_weight: np.average((s > 0.5) == y, weights=sample_weight), 1e-9),
    "log_loss": (lambda y, s, sample_weight: metrics.log_loss(y, s, sample_weight=sample_weight, labels=[0, 1]), 1e-6),
}
_REGRESSION = {
    "rmse": (metrics.root_mean_squared_error, 1e-6),
    "mae": (metrics.mean_absolute_error, 1e-6),
    "explained": (metrics.r2_score, 1e-6),
}


def try_one(seed: int, folder: Path) -> str:
    """Measures random rows in several batches, overall and in three slices."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(2, 400))
    weights = 10.0 ** (rng.uniform(-150, 150) + rng.uniform(-2, 2, rows)) * (rng.random(rows) > rng.choice((0, 0.3)))
    binary = seed % 2 == 0
    if binary:
        labels = (rng.random(rows) < rng.choice((0.02, 0.4))).astype(float)
        scores = np.clip(0.3 * labels + 0.7 * rng.random(rows), 1e-6, 1 - 1e-6)
    else:
        size = 10.0 ** rng.uniform(-15, 15)
        labels = size * (rng.choice((0, 100, 1e4)) + rng.normal(size=rows))
        scores = labels + size * rng.normal(size=rows)
    groups = rng.integers(0, 3, rows)
    formulas = _BINARY if binary else _REGRESSION
    accumulator = SliceAccumulator(tuple(formulas), (("group",),), None, 1)
    states = []
    for part in np.array_split(rng.permutation(rows), rng.integers(1, 5)):
        codes = {"group": Codes(groups[part], (0.0, 1.0, 2.0))}
        scored = Scored(labels[part], weights[part], scores[part])
        batch = ScoredRows(part, np.zeros(len(part), np.int64), codes, (scored,))
        states.append(accumulator.add(accumulator.start(), batch))
    state = accumulator.merge(states)
    values = accumulator.measure(state).values[0]
    for key, index in state.indices.items():
        chosen = (weights > 0) & ((groups == key.values[0]) if key.entry == 0 else True)
        count = state.models[0].sums[accumulator.plan.terms.index(COUNT), index].sum()
        assert count == chosen.sum(), (key, count, chosen.sum())
        for name, (formula, tolerance) in formulas.items():
            if chosen.sum() > 1 and (name not in ("auc", "explained") or len(np.unique(labels[chosen])) > 1):
                # Only the ratios of weights matter, and scikit-learn squares them.
                relative = weights[chosen] / weights[chosen].max()
                expected = formula(labels[chosen], scores[chosen], sample_weight=relative)
                found = values[name][index]
                least = 0 if name in ("rmse", "mae") else 1
                assert abs(found - expected) <= tolerance * max(least, abs(expected)), (key, name, found, expected)
    everything = state.indices[SliceKey(-1, newest=False)]
    return "undefined" if any(np.isnan(values[name][everything]) for name in formulas) else "read"
