"""Profiles the numbers of a column: range, quantiles, skew, and words and placeholders that mean "missing"."""

import re
from dataclasses import dataclass

import numpy as np

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.profile.written_numbers import find_form
from fullpass.pipeline.authoring.rules import rule

_QUANTILES = (0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999)
_WORDS = frozenset(
    "? - -- --- . .. ... na n/a n.a. #n/a #na nan null none nil nat <na> (null) \\n missing unknown undefined inf -inf "
    "infinity tbd * ** #value! #div/0! #ref!".split()
) | {"", "not available", "not applicable"}
SURE_WORDS = frozenset({"", *"? NA N/A n/a #N/A NaN nan NULL null <NA> (null) \\N NaT".split()})
"""Words that almost always mean "missing"."""
_CODE = re.compile("[A-Z]{2}")
_DIGITS = re.compile("[0-9]{1,3}")
_FEWEST_CODES = 3
"""Pairs of capital letters that make a column one of codes."""
_MOST_OTHER_WORDS = 3
"""Words beside numbers that may mean missing; more are values."""
_MOSTLY = 0.8
"""Share of numbers in a column of numbers; the rest may be a word that means missing."""
_FEWEST_ROWS = 20
"""Rows from which on the frequency of words says anything."""
_OFTEN = 0.01
"""Share of rows of a word that is a value, such as a holiday."""
_PER_WORD = 4
"""Numbers beside each word, from which on words are no values."""
_FEW_NUMBERS = 31
"""Numbers beside single letters that are values: as many as days of a month."""
_FAR_OUT = 10.0
"""How many times as far as the usual range a value must lie to be clipped."""
_MOST_AT_AN_END = 3
"""Placeholders beside each other, such as -999, -998 and -997."""
_FEWEST_OTHERS = 10
"""Different other numbers, which tell what is far."""
_FEWEST_BESIDE_NINES = 5
"""The same beside 999 or 9999, which programs write for missing."""
_FEWEST_PLACEHOLDERS = 5
"""Rows of a placeholder; fewer are outliers."""
_LEAST_SHARE = 0.001
"""Share of the rows of a placeholder in a large table."""
_MOST_SHARE = 0.5
"""Share above which a number is the usual value, such as 0."""
_PILE = 2.0
"""How many times as often as the median of the others a placeholder occurs."""
_VERY_FAR = 10.0
"""Ranges of the others that make a number a placeholder that occurs seldom, too."""
_VERY_FAR_BELOW_0 = 3.0
"""The same for a negative number, which programs write for missing more often."""


@dataclass(frozen=True)
class NumberProfile:
    """A column of numbers.

    Attributes:
        quantiles: At 0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999.
        skew: The third standardized moment of the values clipped to the 0.001 and 0.999 quantiles.
        whole: Whether all numbers are whole.
        negative: Share of present rows with a negative number.
    """

    low: float
    high: float
    quantiles: tuple[float, ...]
    skew: float
    whole: bool
    negative: float

    @property
    def median(self) -> float:
        """The 0.5 quantile."""
        return self.quantiles[3]

    @property
    def usual(self) -> tuple[float, float]:
        """The range of all but 2 in 1,000 rows."""
        return self.quantiles[0], self.quantiles[-1]

    @property
    def outliers(self) -> tuple[float | None, float | None]:
        """Limits far below and far above the usual range; None for a side without values beyond the limit."""
        low, high = self.usual
        reach = _FAR_OUT * max(high - self.median, self.median - low, 1e-9)
        below, above = low - reach, high + reach
        return below if self.low < below else None, above if self.high > above else None


def profile_numbers(numbers: np.ndarray) -> NumberProfile | None:
    """Returns the profile of numbers, float64 [rows] with NaN for missing; None if there are no numbers."""
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return None
    quantiles = tuple(float(q) for q in np.quantile(numbers, _QUANTILES))
    usual = np.clip(numbers, quantiles[0], quantiles[-1])
    deviation = float(usual.std())
    scaled = (usual - usual.mean()) / (deviation or 1.0)
    return NumberProfile(
        low=float(numbers.min()),
        high=float(numbers.max()),
        quantiles=quantiles,
        skew=float((scaled * scaled * scaled).mean()) if deviation > 0 else 0.0,  # a power takes 20 times as long
        whole=not (numbers % 1).any(),
        negative=float((numbers < 0).mean()),
    )


def missing_tokens(values: ValueCounts) -> tuple[str, ...]:
    """Returns the values of a column that mean "missing".

    In a column that mostly holds numbers, these are words such as `?`, up to three other words without a digit that are
    no values, and placeholders: numbers far from all others that occur often, and -99, -999 ... In other columns, these
    are only words that are hardly ever a value.
    """
    words = np.flatnonzero(~np.isfinite(values.numbers)).tolist()
    known = [values.texts[index] for index in words if values.texts[index].lower() in _WORDS]
    with_words, values = values, values.without(known)
    if 2 * values.present < with_words.present:
        values = with_words
    numbers = values.numbers
    if values.number_share < _MOSTLY:
        written = find_form(values, enough=_MOSTLY)
        if written is None:
            return tuple(t for t in known if t in SURE_WORDS and not (t == "NA" and has_code_na(with_words)))
        numbers = written.numbers
    other = np.isnan(numbers)
    other[other] = [not any(c.isdigit() for c in text) for text in values.examples(other, most=len(other))]
    others = list(values.examples(other, most=len(other)))
    if len(others) > _MOST_OTHER_WORDS or are_values(values, numbers, other):
        others = []
    return (*known, *others, *_placeholders(values, numbers))


def has_code_na(values: ValueCounts) -> bool:
    """Returns whether NA is a value among codes of two capital letters, as in AF, EU, NA, SA; a few may be digits."""
    if not values.held(["NA"]):
        return False
    others = [text for text in values.texts if text not in SURE_WORDS]
    pairs = sum(_CODE.fullmatch(text) is not None for text in others)
    return pairs >= max(_FEWEST_CODES, len(others) / 2) and all(
        _CODE.fullmatch(t) or _DIGITS.fullmatch(t) for t in others
    )


@rule("words beside numbers", otherwise=False)
def are_values(values: ValueCounts, numbers: np.ndarray, words: np.ndarray) -> bool:
    """Returns whether words beside numbers are values themselves, as in 0, a, b, c or 1 ... 12, K.

    They are if the numbers are few beside them, or if they are single letters that are not rare beside a few numbers.

    Args:
        numbers: float64 [values], NaN where a value is no number.
        words: bool [values].
    """
    count = int((~np.isnan(numbers)).sum())
    if not words.any() or values.present < _FEWEST_ROWS:
        return False
    letters = values.where(lambda text: len(text) == 1 and text.isalpha()) & words
    often = values.counts[words].max() >= _OFTEN * values.present
    return often and bool(count < _PER_WORD * words.sum() or (letters.any() and count <= _FEW_NUMBERS))


@rule("placeholder numbers", otherwise=())
def _placeholders(values: ValueCounts, numbers: np.ndarray) -> tuple[str, ...]:
    """Returns the values, as written, that are far from all others and in many rows; and -99, -999 ... in any row.

    Far is farther than all others from each other, and above positive numbers also as a ratio: 500 is not far from 1,
    2, 5 ... 200. Many is twice the median of the other values (1 of 1,000 rows for a number that is farther still), but
    not most rows; 999, 9999 and the limits of integers need neither. 0 and 1, the ends of shares, never count.
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
        return low - number > high - low
    if number - high > high - low:
        above = others[others > 0]
        return not len(above) or number / high > high / float(np.median(above))
    return False


def _is_very_far(number: float, others: np.ndarray) -> bool:
    low, high = float(others.min()), float(others.max())
    return max(low - number, number - high) > (_VERY_FAR_BELOW_0 if number < 0 else _VERY_FAR) * (high - low)


def _stands_for_missing(number: float, rows: float, beside: np.ndarray, total: float, *, lonely: bool) -> bool:
    if _is_nines(number):
        return number < 0 or (len(beside) >= _FEWEST_BESIDE_NINES and rows > 1)
    pile = 0.0 if lonely else _PILE * float(np.median(beside))
    often = rows >= max(_FEWEST_PLACEHOLDERS, _LEAST_SHARE * total, pile)
    return bool(number not in (0, 1) and often and rows <= _MOST_SHARE * total and len(beside) >= _FEWEST_OTHERS)


def _is_nines(number: float) -> bool:
    return abs(number) < 1e15 and number == int(number) and set(str(abs(int(number)))) == {"9"} and abs(number) > 9
