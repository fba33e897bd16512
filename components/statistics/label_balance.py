"""Finds splits whose labels are distributed otherwise than in all rows, beyond chance: metrics there mean less."""

from collections.abc import Mapping
from dataclasses import dataclass

_BEYOND_CHANCE = 4.0
"""Standard deviations: chance is beyond them once in 16,000 comparisons, and a run makes dozens."""
_FEWEST_EXPECTED = 10
"""Rows of a label: with fewer, the normal distribution does not describe their number."""
_LEAST_RATIO = 1.25
"""A share that is less than a quarter larger or smaller changes no metric much, however sure it is."""
_LEAST_DEVIATION = 0.1
"""The same for means, in standard deviations of the label."""


@dataclass(frozen=True)
class Imbalance:
    """A split with another share of a label, or another mean, than all rows.

    Attributes:
        what: What is measured, such as `label FAIL` or `the mean of price`.
        of_split: Its share of the split, or its mean there, as text.
    """

    split: str
    what: str
    of_split: str
    of_all: str

    @property
    def words(self) -> str:
        """The imbalance as text for people."""
        return f"{self.what} is {self.of_split} in split {self.split} and {self.of_all} in all rows, beyond chance"


def uneven_shares(
    counts: Mapping[str, Mapping[str, float]], rows: Mapping[str, float] | None = None
) -> tuple[Imbalance, ...]:
    """Returns for each split, except train, the label whose share differs most, if it differs beyond chance.

    A share differs if it is four standard errors of independent rows away, and a quarter larger or smaller. Labels that
    chance would give fewer than ten rows are not judged.

    Args:
        counts: Split -> label -> number of rows.
        rows: Split -> number of rows, if a row may have several labels or none.
    """
    if rows is None:
        rows = {split: sum(of.values()) for split, of in counts.items()}
    shares = {
        label: sum(of.get(label, 0) for of in counts.values()) / sum(rows.values())
        for label in dict.fromkeys(name for of in counts.values() for name in of)
    }
    found = []
    for split, of in counts.items():
        worst, farthest = None, _BEYOND_CHANCE
        for label, overall in shares.items() if split != "train" and rows[split] else ():
            share, deviation = of.get(label, 0) / rows[split], (overall * (1 - overall) / rows[split]) ** 0.5
            far = abs(share - overall) / deviation if overall * rows[split] >= _FEWEST_EXPECTED and deviation else 0.0
            if far > farthest and not overall / _LEAST_RATIO < share < overall * _LEAST_RATIO:
                worst, farthest = Imbalance(split, f"label {label}", f"{share:.1%}", f"{overall:.1%}"), far
        found += [worst] if worst else []
    return tuple(found)


def uneven_means(name: str, moments: Mapping[str, tuple[float, float, float]]) -> tuple[Imbalance, ...]:
    """Returns the splits, except train, whose mean of a number differs beyond chance, by a tenth of its deviation.

    Args:
        moments: Split -> number of rows, mean and standard deviation.
    """
    total = sum(rows for rows, _, _ in moments.values())
    overall = sum(rows * mean for rows, mean, _ in moments.values()) / max(total, 1)
    within = sum(rows * (deviation**2 + (mean - overall) ** 2) for rows, mean, deviation in moments.values())
    deviation = (within / max(total, 1)) ** 0.5
    return tuple(
        Imbalance(split, f"the mean of {name}", f"{mean:.4g}", f"{overall:.4g}")
        for split, (rows, mean, _) in moments.items()
        if split != "train"
        and rows
        and abs(mean - overall) > deviation * max(_LEAST_DEVIATION, _BEYOND_CHANCE / rows**0.5)
    )
