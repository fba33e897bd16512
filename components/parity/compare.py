"""Compares features that were computed by two paths, such as training and serving."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text

SHOWN_MISMATCHES = 3
"""Rows that are shown per feature."""
DEFAULT_RTOL = 1e-5
"""Relative difference that is accepted by default."""
FLOAT32_STEP = 2.0**-23
"""The relative distance of two adjacent float32 numbers."""
ROUNDING_STEPS = 1e4
"""Largest difference that counts as rounding, in float32 steps: three of the seven digits of a float32 remain."""


RowName = Callable[[int], str]
"""Row of a batch -> its file and its number there, as text for people."""


class Tolerance(NamedTuple):
    """The tolerance between two floats: |left - right| <= atol + rtol * |right|.

    atol: "auto" is rtol times the standard deviation of the feature's values so far. Two float32 computations of a
    value differ by the rounding of its summands, whose size follows the spread of the values.
    """

    rtol: float
    atol: float | Literal["auto"] = "auto"


@dataclass(frozen=True)
class VarianceAccumulator:
    """An accumulator of the count, the mean and the sum of squared deviations of a feature's finite values."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def plus(self, values: np.ndarray) -> "VarianceAccumulator":
        """Returns the accumulator with the values, float [any shape], added."""
        values = values[np.isfinite(values)]
        if not values.size:
            return self
        mean, count = float(values.mean()), self.count + values.size
        squares = float(np.square(values - mean).sum())
        difference = mean - self.mean
        return VarianceAccumulator(
            count,
            self.mean + difference * values.size / count,
            self.squares + squares + difference**2 * self.count * values.size / count,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0


@dataclass(frozen=True)
class Mismatch:
    """One row that differs. row: its file and the row number in it. left, right: the values, as text."""

    row: str
    left: str
    right: str


@dataclass(frozen=True)
class ComparedFeature:
    """The comparison of one feature, computed by two paths.

    Attributes:
        largest: Largest absolute difference of numbers.
        mismatches: Number of rows beyond the tolerance.
        cause: Likely cause, derived from the values of the first batch with a mismatch; empty without a mismatch.
    """

    feature: str
    pair: str
    rows: int
    largest: float
    mismatches: int
    examples: tuple[Mismatch, ...] = ()
    cause: str = ""
    spread: VarianceAccumulator = field(default=VarianceAccumulator(), compare=False)

    def plus(self, later: "ComparedFeature") -> "ComparedFeature":
        """Merges this comparison with the comparison of later rows."""
        return replace(
            later,
            rows=self.rows + later.rows,
            largest=max(self.largest, later.largest),
            mismatches=self.mismatches + later.mismatches,
            examples=(*self.examples, *later.examples)[:SHOWN_MISMATCHES],
            cause=self.cause or later.cause,
        )


class ParityComparison:
    """The comparison of all batches so far."""

    def __init__(self) -> None:
        self._compared: dict[tuple[str, str], ComparedFeature] = {}

    def variance_of(self, pair: str, feature: str) -> VarianceAccumulator:
        """Returns the spread of a feature over the rows so far."""
        return self._compared[pair, feature].spread if (pair, feature) in self._compared else VarianceAccumulator()

    def add(self, compared: Iterable[ComparedFeature]) -> None:
        """Adds the rows of one batch."""
        for one in compared:
            key = one.pair, one.feature
            self._compared[key] = self._compared[key].plus(one) if key in self._compared else one

    @property
    def compared(self) -> list[ComparedFeature]:
        """The comparison of each feature in each pair of paths, over all rows so far."""
        return list(self._compared.values())

    @property
    def is_decided(self) -> bool:
        """Whether a feature already has as many mismatches as are shown; no further row is then needed."""
        return any(one.mismatches >= SHOWN_MISMATCHES for one in self._compared.values())


Again = Callable[[], Mapping[str, np.ndarray]]
"""Computes the right side a second time."""


def compare_rows(
    left: Mapping[str, np.ndarray],
    right: Mapping[str, np.ndarray],
    *,
    pair: str,
    row_name: RowName,
    tolerance: Tolerance,
    before: ParityComparison | None = None,
    again: Again | None = None,
    least_deviation: float = 0.0,
) -> list[ComparedFeature]:
    """Compares features computed by two paths, row by row.

    Args:
        left, right: Feature -> [rows] or [rows, width]; both in the same row order. Rows of ids may be padded with 0
            to different widths. NaN equals NaN.
        tolerance: Tolerance between floats; all other values must be equal.
        before: The comparison of earlier batches, whose values count for the standard deviation.
        again: Computes the right side again. It is called if values differ, to test whether this is deterministic.
        least_deviation: Lower bound of the standard deviation in the tolerance, such as 1 for probabilities.

    Raises:
        UserError: A feature exists on one side only.
    """
    if set(left) != set(right):
        only = sorted(set(left) ^ set(right))
        raise UserError(f"parity ({pair}): features on one side only: {', '.join(only)}.")
    compared = []
    for name in sorted(left):
        a, b = left[name], right[name]
        if len(a) != len(b):
            raise UserError(f"parity ({pair}): {name} has {len(a)} rows on one side and {len(b)} on the other.")
        spread = before.variance_of(pair, name) if before else VarianceAccumulator()
        spread = spread.plus(b.astype(np.float64)) if np.issubdtype(b.dtype, np.floating) else spread
        difference, allowed = _difference(a, b, tolerance, max(spread.deviation, least_deviation))
        rows = np.flatnonzero((difference > allowed).any(axis=1))
        shown = tuple(Mismatch(row_name(int(i)), _text(a[i]), _text(b[i])) for i in rows[:SHOWN_MISMATCHES])
        largest = float(difference.max(initial=0.0))
        compared.append(ComparedFeature(name, pair, len(a), largest, len(rows), shown, spread=spread))
    if not any(one.mismatches for one in compared):
        return compared
    repeated = again() if again else right
    return [replace(c, cause=_cause(left[c.feature], right[c.feature], repeated[c.feature], c)) for c in compared]


def check_parity(compared: list[ComparedFeature]) -> None:
    """Raises a UserError that names features, rows and likely causes if any row differs."""
    wrong = [c for c in compared if c.mismatches]
    if not wrong:
        return
    lines = ["training and serving do not agree:"]
    for c in wrong:
        lines.append(f"  {c.feature} ({c.pair}): {c.mismatches:,} of {c.rows:,} rows differ, by up to {c.largest:g}.")
        lines += [f"    {m.row}: {m.left} against {m.right}" for m in c.examples]
        lines += [f"    {c.cause}"] if c.cause else []
    lines.append("The model is not pushed.")
    raise UserError("\n".join(lines))


def report_json(compared: list[ComparedFeature]) -> str:
    """Returns the report as JSON text."""
    return to_json_text(list(compared), indent=1)


def _difference(
    left: np.ndarray, right: np.ndarray, tolerance: Tolerance, deviation: float
) -> tuple[np.ndarray, np.ndarray | float]:
    """Returns absolute differences, float64 [rows, width], and the allowed ones; unequal ids or texts differ by 1."""
    a, b = same_width(left.reshape(len(left), -1), right.reshape(len(right), -1))
    if not np.issubdtype(a.dtype, np.floating):
        return (a != b).astype(np.float64), 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity minus itself
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    atol = tolerance.rtol * deviation if tolerance.atol == "auto" else tolerance.atol
    allowed = atol + tolerance.rtol * np.where(np.isfinite(b), np.abs(b), 0.0)
    return np.where(np.isnan(difference), np.inf, difference), allowed


def _cause(left: np.ndarray, right: np.ndarray, repeated: np.ndarray, compared: ComparedFeature) -> str:
    """Returns the likely cause of the differences, derived from the values of a batch."""
    if not compared.mismatches:
        return ""
    a, b, again = (value.reshape(len(value), -1) for value in (left, right, repeated))
    numbers = np.issubdtype(b.dtype, np.floating)
    if b.shape != again.shape or not np.array_equal(b, again, equal_nan=numbers):
        return "Not deterministic: the export returns other values when it is called again with the same rows."
    if a.shape == b.shape and np.array_equal(np.sort(a, axis=0), np.sort(b, axis=0), equal_nan=numbers):
        return "Order: both paths give the same values, in another order of the rows."
    if not numbers:
        return "The values themselves differ: look for a vocabulary or a constant that is not the same in both paths."
    scale = max(compared.spread.deviation, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    steps = compared.largest / (scale * FLOAT32_STEP) if scale else np.inf
    if steps <= ROUNDING_STEPS:
        return (
            f"Rounding: the largest difference is {steps:,.0f} float32 steps of the largest value, and repeated calls "
            f"give the same values. If this error is acceptable, raise parity.rtol (by default {DEFAULT_RTOL:g})."
        )
    return (
        "This is not rounding, because the differences are too large: look for a constant or a transform that is not "
        "the same."
    )


def same_width(*arrays: np.ndarray) -> list[np.ndarray]:
    """Returns arrays [rows, width], padded with 0 to the widest."""
    width = max(array.shape[1] for array in arrays)
    return [np.pad(a, [(0, 0), (0, width - a.shape[1])]) if a.shape[1] < width else a for a in arrays]


def _text(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), threshold=12, precision=8)
