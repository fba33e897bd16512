"""The verdict of the Evaluator, as it records it and as all others read it: `verdict.json` of the evaluation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

from pydantic import BeforeValidator

from fullpass.base.errors import UserError
from fullpass.base.json_text import Number, read_parsed, to_json_text
from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.confidence import half_width, quantile
from fullpass.components.evaluation.measure.metrics import metric_named, metric_of

FILE = "verdict.json"
JUDGED_BY = "judged_by"
"""Custom property of a blessing: the nodes that decided on it, if they are more than the Evaluator."""
_Baseline = Annotated[float | None, BeforeValidator(lambda value: math.nan if value is None else value)]
"""NaN where the file has null; the file has no entry where there is no last blessed model."""


@dataclass(frozen=True)
class Measured:
    """A metric on some rows.

    Attributes:
        baseline: Value of the last blessed model, NaN if it has none; None if there is no such model.
        required: The bounds, as text for people; "" if there are none.
        missed: Why the bounds do not hold; "" if they do.
        error: Standard error of the value.
        difference_error: Standard error of the difference from the last blessed model on the same rows, pair by pair.
        not_compared: Why the value and that of the last blessed model cannot be compared; "" if they can.
        uncounted: Why the metric is computed on no rows; "" if it is.
    """

    metric: str
    value: Number
    baseline: _Baseline = None
    required: str = ""
    missed: str = ""
    error: Number = math.nan
    difference_error: Number = math.nan
    not_compared: str = ""
    uncounted: str = ""

    @property
    def passed(self) -> bool:
        """Whether the bounds hold."""
        return not self.missed

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % interval around the value; None if the standard error is unknown."""
        return None if math.isnan(self.error) else half_width(self.error)

    @property
    def difference(self) -> float:
        """The value minus that of the last blessed model; NaN if they do not compare."""
        return math.nan if self.baseline is None or self.not_compared else self.value - self.baseline

    @property
    def difference_half_width(self) -> float:
        """Half the width of the 95 % interval around the difference; NaN if it is unknown."""
        return half_width(self.difference_error)

    @property
    def change(self) -> str:
        """How the value differs from that of the last blessed model, as `change_word` says it; "" if there is none."""
        if math.isnan(self.difference):
            return ""
        return change_word(self.metric, self.difference, self.difference_half_width)


def change_word(metric: str, difference: float, reach: float) -> str:
    """Returns `better`, `worse`, `they differ` for a metric without direction, or why that cannot be said.

    Example:
        >>> change_word("auc", 0.02, 0.01), change_word("log_loss", 0.02, 0.01), change_word("auc", 0.02, 0.03)
        ('better', 'worse', 'within chance')

    Args:
        difference: The new value minus the other.
        reach: Half the width of the 95 % interval around it; NaN if it is unknown.
    """
    if math.isnan(difference):
        return "undefined"
    if difference == 0:
        return "equal"
    if math.isnan(reach):
        return "too few rows to tell"
    if abs(difference) <= reach:
        return "within chance"
    known = metric_named(metric)
    if known is None or known.higher_is_better is None:
        return "they differ"
    return "better" if (difference > 0) == known.higher_is_better else "worse"


@dataclass(frozen=True)
class Slice:
    """MeasuredRows that share values of some columns.

    Attributes:
        name: Such as `hour 7, company Flash Cab`.
        values: Metric -> value; without metrics that are undefined on these rows.
        baseline: The same for the last blessed model, if one was compared.
        judged: The metrics that have bounds on this slice; empty if it has too few rows.
        errors: Metric -> standard error of the value, where it is known.
    """

    name: str
    examples: int
    values: Mapping[str, float]
    baseline: Mapping[str, float] = field(default_factory=dict)
    newest: bool = False
    judged: tuple[Measured, ...] = ()
    columns: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)

    def reach(self, metric: str) -> float:
        """Returns half the width of the 95 % interval around the value of a metric; NaN if it is unknown."""
        return half_width(self.errors.get(metric, math.nan))

    @property
    def failed(self) -> frozenset[str]:
        """The metrics that do not hold their bounds."""
        return frozenset(m.metric for m in self.judged if not m.passed)


@dataclass(frozen=True)
class Verdict:
    """Whether a model is blessed, and all measurements.

    Attributes:
        reasons: Reasons why the model is not blessed, one line each.
        newest, newest_examples: The same for the newest span alone; empty or 0 if there are no spans.
        slices: Slices of all rows, then of the newest span; in each group the largest first.
        notes: What was not judged, and the reasons.
        doubt: Why the model is no better than the simple reference or a baseline beyond chance; "" if it is.
        baselines: How each baseline of a forecast compares with the model, as text for people.
    """

    blessed: bool
    reasons: tuple[str, ...]
    metrics: tuple[Measured, ...]
    examples: int
    newest: tuple[Measured, ...] = ()
    newest_examples: int = 0
    slices: tuple[Slice, ...] = ()
    notes: tuple[str, ...] = ()
    doubt: str = ""
    baselines: tuple[str, ...] = ()

    @property
    def all_metrics(self) -> tuple[Measured, ...]:
        """The metrics on all rows, then those on the newest span, which their names say."""
        of_newest = (replace(m, metric=f"{m.metric}, newest span") for m in self.newest)
        return (*self.metrics, *of_newest)

    @property
    def deciding(self) -> Measured | None:
        """The metric that a person looks at first: the first one with bounds, or else the first with a direction."""
        directed = [m for m in self.metrics if metric_of(m.metric).higher_is_better is not None]
        return next((m for m in directed if m.required), directed[0] if directed else None)

    @property
    def weakest(self) -> Slice | None:
        """The slice of all rows on which the deciding metric is worst, of those worse than all rows beyond chance.

        The chance is 2.5 % that any slice is, if all are like all rows.
        """
        whole = self.deciding
        slices = [one for one in self.slices if whole and not one.newest and whole.metric in one.errors]
        if whole is None or not slices:
            return None
        name, sign = whole.metric, 1 if metric_of(whole.metric).higher_is_better else -1
        limit = quantile(1 - 0.025 / len(slices))
        weak = [one for one in slices if sign * (whole.value - one.values[name]) > limit * one.errors[name]]
        return min(weak, key=lambda one: sign * one.values[name], default=None)

    @property
    def decided(self) -> tuple[str, ...]:
        """Why the model is not blessed, or else each bound that it holds, one line each."""
        held = (
            f"{m.metric} {metric_text(m.value, m.half_width)}: {m.required}" for m in self.all_metrics if m.required
        )
        return tuple(held) if self.blessed else self.reasons

    @property
    def slices_differ(self) -> bool:
        """Whether a slice is worse than all rows or than the last blessed model beyond chance, or misses a bound."""
        judged = (m for one in self.slices for m in one.judged)
        return self.weakest is not None or any(not m.passed or m.change == "worse" for m in judged)

    def judged_on_slices(self) -> Iterator[tuple[str, bool, list[tuple[Slice, Measured]]]]:
        """Yields each metric, whether it is measured on the newest span alone, and its judged slices, worst first."""
        for newest in (False, True):
            mine = [one for one in self.slices if one.newest == newest]
            yield from ((metric, newest, judged) for metric, judged in judged_on_slices(mine))


def judged_on_slices(slices: Sequence[Slice]) -> Iterator[tuple[str, list[tuple[Slice, Measured]]]]:
    """Yields each metric with the slices that it was judged on, the worst first."""
    pairs = [(one, m) for one in slices for m in one.judged]
    for metric in dict.fromkeys(m.metric for _, m in pairs):
        mine = [(one, m) for one, m in pairs if m.metric == metric]
        upwards = metric_of(metric).higher_is_better is not False
        mine.sort(key=lambda pair: (pair[1].passed, pair[1].value if upwards else -pair[1].value))
        yield metric, mine


def verdict_json(verdict: Verdict) -> str:
    """Returns the content of `verdict.json`; a value that is undefined is null."""
    return to_json_text(_without_none(asdict(verdict)), indent=1)


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list | tuple) else value


def read_verdict(evaluation_uri: str) -> Verdict:
    """Returns the verdict recorded in an evaluation artifact.

    Raises:
        UserError: The evaluation has no `verdict.json`.
    """
    verdict = read_parsed(Verdict, f"{evaluation_uri}/{FILE}")
    if verdict is None:
        raise UserError(f"{evaluation_uri}: no {FILE}. Run the pipeline again.")
    return verdict
