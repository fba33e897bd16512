"""Finds numbers that stand for "missing": far from all others, and in many rows."""

import numpy as np

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts

_LIMITS = frozenset({-(2.0**15), -(2.0**31), -(2.0**63), 2.0**15 - 1, 2.0**16 - 1, 2.0**31 - 1, 2.0**32 - 1})
_MOST_AT_AN_END = 3
_FEWEST_OTHERS, _FEWEST_BESIDE_NINES = 10, 5
_FEWEST_ROWS, _LEAST_SHARE, _MOST_SHARE = 5, 0.001, 0.5
_PILE = 2.0
_VERY_FAR, _VERY_FAR_BELOW_0 = 10.0, 3.0


def find_placeholders(values: ValueCounts, numbers: np.ndarray) -> tuple[str, ...]:
    """Returns the values, as written, that are far from all others and in many rows; and -99, -999 ... in any row.

    Far is farther than all others from each other, and above positive numbers also as a ratio: 500 is not far from 1,
    2, 5 ... 200. Many is twice the median of the other values (1 of 1,000 rows for a number that is farther still), but
    not most rows; 999, 9999 and the limits of integers need neither.

    Args:
        values: the column.
        numbers: float64 [values], its numbers, NaN where a value is none.
    """
    known = ~np.isnan(numbers)
    found, index = np.unique(numbers[known], return_inverse=True)
    rows = np.bincount(index, weights=values.counts[known], minlength=len(found))
    kept = np.ones(len(found), dtype=bool)
    while True:
        gone = _at_an_end(found[kept], rows[kept], rows.sum())
        if not len(gone):
            break
        kept &= ~np.isin(found, gone)
    chosen = np.isin(numbers, found[~kept])
    return tuple(values.examples(chosen, most=len(chosen)))


def _at_an_end(found: np.ndarray, rows: np.ndarray, total: float) -> np.ndarray:
    """Returns the placeholders at the lower or else the upper end of sorted numbers; empty without any."""
    for step in (1, -1):
        for size in range(1, _MOST_AT_AN_END + 1):
            end, others = found[::step][:size], found[::step][size:]
            if len(others) < 2 or not _is_far(end[-1], others):
                continue
            beside, lonely = rows[::step][size:], _is_very_far(end[-1], others)
            pairs = zip(end, rows[::step][:size], strict=True)
            if all(_stands_for_missing(*pair, beside, total, lonely=lonely) for pair in pairs):
                return end
    return found[:0]


def _is_far(number: float, others: np.ndarray) -> bool:
    """Returns whether a number is farther from sorted or reversed numbers than these are from each other."""
    low, high = float(others.min()), float(others.max())
    if number < low:
        return low - number > high - low or (_is_nines(number) and number < 0 <= low)
    above = others[others > 0]
    as_ratio = not len(above) or number / high > high / float(np.median(above))
    return number - high > high - low and as_ratio


def _is_very_far(number: float, others: np.ndarray) -> bool:
    low, high = float(others.min()), float(others.max())
    return max(low - number, number - high) > (_VERY_FAR_BELOW_0 if number < 0 else _VERY_FAR) * (high - low)


def _stands_for_missing(number: float, rows: float, beside: np.ndarray, total: float, *, lonely: bool) -> bool:
    if _is_nines(number) or number in _LIMITS:
        return number < 0 or (len(beside) >= _FEWEST_BESIDE_NINES and rows > 1)
    pile = 0.0 if lonely else _PILE * float(np.median(beside))
    often = rows >= max(_FEWEST_ROWS, _LEAST_SHARE * total, pile)
    return bool(number != 0 and often and rows <= _MOST_SHARE * total and len(beside) >= _FEWEST_OTHERS)


def _is_nines(number: float) -> bool:
    return abs(number) < 1e15 and number == int(number) and set(str(abs(int(number)))) == {"9"} and abs(number) > 9
