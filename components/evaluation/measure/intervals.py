"""Standard errors by which intervals hold on few rows, rare classes and long tails.

The spread over groups of rows (`sampling_error.py`) is itself uncertain there: it is 0 if a model has all of twelve
positive rows right. What else is known of a metric, its evidence, gives an error by which the intervals of
`confidence.py` hold in at least 90 % of cases, or which is unknown.

- A share of rows, such as recall, has Wilson's interval (Probable Inference, the Law of Succession, and Statistical
  Inference, 1927). Ours are symmetric, and reach to its farther end: about 4 / n for a share that never failed. Its
  number of rows follows from the spread (Korn and Graubard, Confidence
  Intervals for Proportions with Small Expected Number of Positive Counts Estimated from Survey Data, 1998), and is at
  most that of the rows.
- An area under a curve has Wilson's interval, too, and so has the correlation. The spread counts the more the more rows
  there are, and the rest is the variance of scores with exponential distributions (Hanley and McNeil, The Meaning and
  Use of the Area under a ROC Curve, 1982; for precision and recall Boyd and others, Area under the Precision-Recall
  Curve, 2013).
- Any other metric has the spread, corrected for its skewness. It tells nothing of the mean of errors with a long tail.
  The explained variance compares with a constant guess, which is wrong in the same rows: where the few largest errors
  raise it, rarer ones do so, too, and the spread holds; where they lower it, the error is a multiple of the spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS, quantile
from fullpass.components.evaluation.measure.sampling_error import spread_and_skewness, standard_errors

FEWEST_ROWS = 8
"""The error of a metric that rests on fewer rows is unknown."""
_WIDE = quantile(0.975)
"""Standard errors to an end of an interval of 95 %."""
_PRIOR_ROWS = 3
"""Number of telling rows from which on the spread of an area counts more than the variance of exponential scores. Of an
area of 0.5 all rows are telling; of one near 0 or 1 few, which decide its spread."""
_SEPARATED_ROWS = 12
"""Number of rows from which on classes with separate scores tell more than as many rows without a failure."""
_LONG_TAIL = 4.0
"""Multiple of the spread of a relative metric that few large errors lower. In simulations with it, good models of
log-normal labels are told from a constant, and models whose errors are Student's t of 2.5 degrees are in 7 to 19 %."""
_APART = 0.5
"""Share of the variances of two areas on the same rows that their difference has, where its spread is uncertain."""


@dataclass(frozen=True)
class Evidence:
    """What the error of a metric rests on, for each set of rows.

    Attributes:
        rows: Number of rows of which the metric is a share, or of which a share varies as much, float64 [sets]; None if
            the metric is no share.
        edge: The same for a metric near 1; None if it is `rows`.
        enough: Whether there are enough rows of the kinds that the metric needs, and no long tail of errors, unless
            the metric is relative, bool [sets]; None if there are.
        of_few: Whether the errors of a relative metric have a long tail, bool [sets]; None if none has.
        area: Whether the metric is an area under a curve.
        lowest: The smallest value of a share. The largest is 1.
    """

    rows: np.ndarray | None = None
    edge: np.ndarray | None = None
    enough: np.ndarray | None = None
    of_few: np.ndarray | None = None
    area: bool = False
    lowest: float = 0.0

    def known(self, errors: np.ndarray) -> np.ndarray:
        """Returns the errors, float64 [sets]; NaN where the rows are too few."""
        some = np.ones(len(errors), bool) if self.enough is None else self.enough
        return np.where(some if self.rows is None else some & (self.rows >= FEWEST_ROWS), errors, np.nan)


@dataclass(frozen=True)
class ModelMetrics:
    """Metrics of one model by name.

    Attributes:
        values: Float64 [slices], NaN where undefined.
        without: The same without each group of rows, float64 [slices, GROUPS].
        evidence: What the errors rest on.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    without: dict[str, np.ndarray] = field(default_factory=dict)
    evidence: dict[str, Evidence] = field(default_factory=dict)

    @staticmethod
    def undefined(names: Sequence[str], slices: int) -> "ModelMetrics":
        """Returns metrics that are not known yet, to be set slice by slice."""
        nothing = ((slices,), (slices, GROUPS))
        values, without = ({name: np.full(shape, np.nan) for name in names} for shape in nothing)
        return ModelMetrics(values, without)

    def with_more(self, more: "ModelMetrics") -> "ModelMetrics":
        """Returns both together."""
        return ModelMetrics(self.values | more.values, self.without | more.without, self.evidence | more.evidence)


def errors_of(evidence: Evidence, values: np.ndarray, without: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Returns the standard error of a metric on each set of rows, float64 [sets]; NaN where it is unknown.

    Args:
        values: The metric, float64 [sets].
        without, present: As in `standard_errors`.
    """
    if evidence.rows is None:
        errors = standard_errors(without, present)
        if evidence.of_few is not None:
            raised = spread_and_skewness(without, present)[1] < 0
            errors = np.where(evidence.of_few & ~raised, _LONG_TAIL * errors, errors)
        return evidence.known(errors)
    edge = evidence.rows if evidence.edge is None else evidence.edge
    size = 1 - evidence.lowest
    share = (values - evidence.lowest) / size
    varies = share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        if evidence.area or evidence.lowest:
            spread = standard_errors(without, present) / size
            prior = _prior(share, evidence.rows)
            edge = edge * (1 + edge / _SEPARATED_ROWS) if evidence.area else edge
            variance = (1 - prior) * spread**2 + prior * varies / evidence.rows
        else:
            spread = spread_and_skewness(without, present)[0] / size
            guess = GROUPS / (evidence.rows + GROUPS)  # of few rows, that of independent rows is the better one
            variance = np.fmax((1 - guess) * spread**2 + guess * varies / evidence.rows, varies / evidence.rows)
        # Wilson's interval: the values whose normal interval, with their own variance, has the share.
        center = (0.5 - share) * _WIDE**2 / (edge + _WIDE**2)
        half = np.sqrt(variance + (_WIDE / (2 * edge)) ** 2) * edge / (edge + _WIDE**2)
    return evidence.known(size * (half + np.abs(center) / _WIDE))


def _prior(areas: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns how much the variance of exponential scores counts, from 0 to 1."""
    return _PRIOR_ROWS / (4 * areas * (1 - areas) * rows + _PRIOR_ROWS)


def difference_errors(
    evidence: Sequence[Evidence],
    values: Sequence[np.ndarray],
    errors: Sequence[np.ndarray],
    without: np.ndarray,
    present: np.ndarray,
) -> np.ndarray:
    """Returns the standard error of the difference of two models' metrics on the same rows, float64 [sets].

    Rows that only one of two models has right are few. If there are none, up to 3 / n of all rows may be (the rule of
    three), so that two models that agree on few rows have an interval, too.

    Args:
        evidence, values, errors: That of the metric of each model, its values, and their standard errors.
        without: The difference without each group, float64 [sets, GROUPS].
        present: As in `standard_errors`.
    """
    known = errors[0] + errors[1]  # NaN if one is
    if evidence[0].rows is None or evidence[1].rows is None:
        return np.where(np.isnan(known), np.nan, standard_errors(without, present))
    if evidence[0].area:
        prior = np.maximum(*(_prior(v, of.rows) for v, of in zip(values, evidence, strict=True) if of.rows is not None))
        variance = (1 - prior) * standard_errors(without, present) ** 2
        found = np.sqrt(variance + prior * _APART * (errors[0] ** 2 + errors[1] ** 2))
    else:
        edge = np.minimum(*(of.rows if of.edge is None else of.edge for of in evidence))  # type: ignore[arg-type]
        least = 3 * (1 - evidence[0].lowest) / _WIDE / np.maximum(edge, 1)
        found = np.hypot(spread_and_skewness(without, present)[0], least)
    return np.where(np.isnan(known), np.nan, found)


def effective_rows(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the number of rows of equal weight that tell as much, float64 [...].

    How the weights vary follows from the sums of the groups (Kish, Survey Sampling, 1965). Equal weights give the
    number of rows.

    Args:
        weights, rows: Sum of the weights and number of the rows of each group, float64 [..., GROUPS].
    """
    count = rows.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = weights / weights.sum(axis=-1, keepdims=True) * count[..., None]
        varied = ((scaled - rows) ** 2).sum(axis=-1) / count * GROUPS / (GROUPS - 1)
        return np.where(count > 0, count / (1 + varied), 0.0)


def area_rows(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Returns the rows of which a share varies as an area near 1 under the ROC curve of exponential scores."""
    return 2 * np.minimum(positive, negative)


def mean_rows(rows: np.ndarray, weights: np.ndarray, few: np.ndarray) -> tuple[float, float]:
    """Returns `rows` and `edge` of the evidence of a weighted mean of shares.

    The variances add, and the half widths of Wilson's intervals do so in squares (Zou and Donner, Construction of
    Confidence Limits about Effect Measures, 2008). Both are 0 if the mean rests mostly on shares of few rows.

    Args:
        rows, weights: Those of the shares, float64 [n].
        few: Whether a share is of few rows, bool [n].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        variances, steps = (np.where(weights > 0, weights**2 / rows**power, 0.0) for power in (1, 2))
        if not 2 * variances[few].sum() <= variances.sum():
            return 0.0, 0.0
        total = weights.sum()
        return float(total**2 / variances.sum()), float(total / np.sqrt(steps.sum()))
