"""Divergences between two distributions of a column over common bins, and the divergence that chance explains.

A bin is a single value, a range, or all other values. Missing values always have their own bin, so the shares add up
to 1. The measures are

* `js`, the Jensen-Shannon divergence to base 2, from 0 (equal) to 1 (nothing in common): the mean of the
  Kullback-Leibler divergences of both from their mean (Lin 1991);
* `linf`, the largest difference between the two shares of a bin (Chebyshev distance).

Two samples of the same distribution also differ. For samples of n and m rows, 8 ln 2 n m / (n + m) js is approximately
chi-squared with (number of bins - 1) degrees of freedom, and the difference of a share s is approximately normal with
variance s (1 - s) (1/n + 1/m). Chance exceeds `js_chance` and `linf_chance` once in ten thousand comparisons.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fullpass.components.data_gate.distribution import NOT_NEXT, Distribution

BINS = 20
"""Number of ranges that numbers are cut into. Each holds about the same number of rows of the earlier data."""
_TOKENS = 100
"""Values with a bin of their own at most; all others share one."""
_LEAST_EXPECTED = 5
"""Smallest expected count of a bin of a single value (Cochran's rule)."""
CHANCE = 1e-4
"""Probability with which a comparison of equal distributions exceeds its limit."""
MISSING, OTHER = "missing", "other values"


@dataclass(frozen=True)
class Divergence:
    """Two distributions over common bins.

    Attributes:
        before, now: Share of rows in each bin; zeros if there are no rows.
        js_chance, linf_chance: The divergences that chance explains in samples of these sizes.
        unseen: Share of the newer rows whose token is absent from the earlier data; 0 if this is unknown.
    """

    bins: tuple[str, ...]
    before: tuple[float, ...]
    now: tuple[float, ...]
    js: float
    linf: float
    js_chance: float
    linf_chance: float
    unseen: float = 0.0


def divergence(before: Distribution, now: Distribution, *, looks: int = 1) -> Divergence:
    """Returns the divergence of two distributions of the same kind.

    Args:
        before: The earlier data, which determines the ranges of numbers.
        looks: Number of comparisons of which chance exceeds its limit in one, once in ten thousand times.
    """
    cut = _number_bins if before.kind == "number" else _token_bins
    bins, counts_before, counts_now = cut(before, now)
    bins = [*bins, MISSING]
    p = _shares([*counts_before, before.missing])
    q = _shares([*counts_now, now.missing])
    kept = (p + q > 0) | (np.arange(len(p)) == len(p) - 1)
    p, q = p[kept], q[kept]
    inverse = 1 / max(before.rows, 1) + 1 / max(now.rows, 1)
    together = (p + q) / 2
    most_uncertain = together[np.argmin(np.abs(together - 0.5))]  # the share with the largest variance
    return Divergence(
        bins=tuple(name for name, keep in zip(bins, kept, strict=True) if keep),
        before=tuple(p.tolist()),
        now=tuple(q.tolist()),
        js=jensen_shannon(p, q),
        linf=float(np.abs(p - q).max()),
        js_chance=_js_by_chance(int((p + q > 0).sum()), inverse, looks),
        linf_chance=share_by_chance(float(most_uncertain), inverse, len(p) * looks),
        unseen=_unseen(before, now),
    )


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Returns the Jensen-Shannon divergence to base 2 of two vectors of shares."""
    middle = (p + q) / 2
    return float(max((_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2, 0.0))


def _relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    positive = p > 0
    return float(np.sum(p[positive] * np.log2(p[positive] / q[positive])))


def share_by_chance(share: float, inverse: float, comparisons: int = 1) -> float:
    """Returns the difference of a share that chance exceeds once in 10,000 pairs of samples.

    Args:
        share: The share in both samples together.
        inverse: 1/n + 1/m for samples of n and m rows.
        comparisons: Number of shares that are compared.
    """
    z = NormalDist().inv_cdf(1 - CHANCE / 2 / max(comparisons, 1))
    return min(z * math.sqrt(share * (1 - share) * inverse), 1.0)


def _js_by_chance(bins: int, inverse: float, looks: int) -> float:
    """Returns the js that chance exceeds once in 10,000; the chi-squared quantile is Wilson and Hilferty's (1931)."""
    freedom = bins - 1
    if freedom < 1:
        return 0.0
    part = 2 / (9 * freedom)
    quantile = freedom * (1 - part + NormalDist().inv_cdf(1 - CHANCE / looks) * math.sqrt(part)) ** 3
    return min(quantile * inverse / (8 * math.log(2)), 1.0)


def _shares(counts: Sequence[float]) -> np.ndarray:
    weights = np.array(counts, dtype=np.float64)
    return weights / weights.sum() if weights.sum() else weights


def _token_bins(before: Distribution, now: Distribution) -> tuple[list[str], list[float], list[float]]:
    """Returns the bins, one per common token and one for all other tokens, with the counts of both distributions."""
    of_before, of_now = (dict(zip(d.values, d.counts, strict=True)) for d in (before, now))
    rows = min(before.rows, now.rows)

    def share(token: str) -> float:
        return (of_before.get(token, 0) / max(before.rows, 1) + of_now.get(token, 0) / max(now.rows, 1)) / 2

    ranked = sorted({*of_before, *of_now}, key=lambda token: (-share(token), token))
    bins = [token for token in ranked[:_TOKENS] if share(token) * rows >= _LEAST_EXPECTED]
    counts = [[of.get(token, 0.0) for token in bins] for of in (of_before, of_now)]
    rest = [max(d.present - sum(c), 0.0) for d, c in zip((before, now), counts, strict=True)]
    return [*bins, OTHER], [*counts[0], rest[0]], [*counts[1], rest[1]]


def _number_bins(before: Distribution, now: Distribution) -> tuple[list[str], list[float], list[float]]:
    """Returns the bins, one per common value and ranges for the rest, with the counts of both distributions.

    Each range holds about the same number of rows of the earlier data. A range is (from, to]; the first and the last
    are open.
    """
    heavy = np.union1d(_heavy(before), _heavy(now))
    own = [_counts_of(d, heavy) for d in (before, now)]
    rest = [_without(d, heavy) for d in (before, now)]
    edges = _edges(*rest[0], present=before.present)
    ranges = [
        np.bincount(np.searchsorted(edges, values), weights=counts, minlength=len(edges) + 1).tolist()
        for values, counts in rest
    ]
    bins = [*(f"{value:g}" for value in heavy), *_range_names(edges)]
    return bins, [*own[0], *ranges[0]], [*own[1], *ranges[1]]


def _heavy(d: Distribution) -> np.ndarray:
    values, counts = np.array(d.values, dtype=np.float64), np.array(d.counts, dtype=np.float64)
    return values[counts >= max(_LEAST_EXPECTED, d.present / BINS)]


def _counts_of(d: Distribution, heavy: np.ndarray) -> list[float]:
    counts = dict(zip(d.values, d.counts, strict=True))
    return [counts.get(value, 0.0) for value in heavy.tolist()]


def _without(d: Distribution, heavy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.array(d.values, dtype=np.float64), np.array(d.counts, dtype=np.float64)
    light = ~np.isin(values, heavy)
    return values[light], counts[light]


def _edges(values: np.ndarray, counts: np.ndarray, *, present: float) -> np.ndarray:
    """Returns the upper bound of each range except the last, which is open."""
    ranges = round(BINS * counts.sum() / present) if present else 0
    if ranges < 2:
        return np.array([])
    below = np.cumsum(counts)
    at = np.searchsorted(below, below[-1] * np.arange(1, ranges) / ranges * NOT_NEXT)
    return np.unique(values[at[at < len(values) - 1]])


def _range_names(edges: np.ndarray) -> list[str]:
    if not len(edges):
        return [OTHER]
    inner = [f"{low:g} to {high:g}" for low, high in zip(edges[:-1], edges[1:], strict=True)]
    return [f"to {edges[0]:g}", *inner, f"over {edges[-1]:g}"]


def _unseen(before: Distribution, now: Distribution) -> float:
    if before.kind != "category" or not before.complete or not now.rows:
        return 0.0
    known = set(before.values)
    return sum(c for token, c in zip(now.values, now.counts, strict=True) if token not in known) / now.rows
