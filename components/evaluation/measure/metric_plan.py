"""What must be summed over rows to compute some metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fullpass.components.evaluation.measure.class_sums import OfClasses
from fullpass.components.evaluation.measure.formulas import COUNT, Formula
from fullpass.components.evaluation.measure.metric_terms import count_of
from fullpass.components.evaluation.measure.metrics import metric_of
from fullpass.components.evaluation.measure.moments import MOMENTS
from fullpass.components.evaluation.measure.one_vs_rest import MOST_CURVES
from fullpass.components.evaluation.measure.score_buckets import Area

POSITIVE, PAIRS = "label", "pairs"
"""Terms of the positive rows and of all rows of an area."""


@dataclass(frozen=True)
class MetricPlan:
    """The metrics by how they are computed, and what they need.

    Attributes:
        terms: The terms whose sums they need; the first is the number of rows.
        trials: The terms of the rows that they are shares of, or rest on.
        tails: The terms whose large values may decide a metric.
        moments: Whether they need moments.
        curves: The number of curves that a slice may have: none, one, or one per class.
        classes: Whether rows are counted by class and predicted class.
    """

    formulas: Mapping[str, Formula]
    areas: Mapping[str, Area]
    of_classes: Mapping[str, OfClasses]
    terms: tuple[str, ...]
    trials: tuple[str, ...]
    tails: tuple[str, ...]
    moments: bool
    curves: int
    classes: bool

    @property
    def one_vs_rest(self) -> list[str]:
        """The metrics that need a histogram per class."""
        return [name for name, how in self.of_classes.items() if how.share == "auc"]


@cache
def plan_of(metrics: tuple[str, ...]) -> MetricPlan:
    """Returns the plan of some metrics."""
    computed = {name: metric_of(name).computed for name in metrics}
    formulas = {name: how for name, how in computed.items() if isinstance(how, Formula)}
    areas = {name: how for name, how in computed.items() if isinstance(how, Area)}
    of_classes = {name: how for name, how in computed.items() if isinstance(how, OfClasses)}
    needed = [term for formula in formulas.values() for term in formula.terms]
    shares = [term for formula in formulas.values() for term in (formula.trials, formula.rests_on) if term]
    trials = _distinct([*shares, *((POSITIVE, PAIRS) if areas else ())])
    moments = set(MOMENTS) - {"weight"}
    per_class = any(how.share == "auc" for how in of_classes.values())
    return MetricPlan(
        formulas,
        areas,
        of_classes,
        _distinct([COUNT, *(term for term in needed if term not in moments), *trials, *map(count_of, trials)]),
        trials,
        _distinct([formula.tail for formula in formulas.values() if formula.tail]),
        moments=not moments.isdisjoint(needed),
        curves=MOST_CURVES if per_class else 1 if areas else 0,
        classes=bool(areas or of_classes),
    )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
