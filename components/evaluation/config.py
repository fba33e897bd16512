"""`evaluation:` of the YAML: the metrics, the slices, and the thresholds of a model."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fullpass.components.evaluation.confidence import quantile
from fullpass.preprocessing.spec import Count, Flag, Name, Real, Spec
from fullpass.trainer.decision_config import DecisionConfig

_CONFIDENCE_OF_NEWEST = 0.95
"""Confidence of the comparison on the newest span, if the threshold has none: a span has few rows, so values that are
compared as measured would refuse every second model that is as good as the last."""


Compared = Literal["blessed", "eval", "served"]
COMPARED_WITH: Mapping[Compared, tuple[str, str]] = {
    "blessed": ("the last blessed model", "on the same rows"),
    "eval": ("the version", "on its eval rows"),
    "served": ("the served model", "on the same live rows"),
}
"""What a metric is compared with -> its name, and the rows of its value, for messages."""


class Bounds(Spec):
    """Bounds of a metric on some rows."""

    min: Real | None = None
    """Smallest allowed value."""
    max: Real | None = None
    """Largest allowed value."""
    beyond_chance: Annotated[float, Field(strict=True, gt=0.5, lt=1)] | None = None
    """With min or max: the metric must be better than the bound beyond chance, with this confidence, such as 0.95.
    Chance is estimated from the variation of the metric over groups of rows, so the margin is larger on few rows. The
    bound does not hold if chance cannot be estimated, as with one positive row. null: the values are compared."""
    not_worse_than: Compared | None = None
    """What the metric is compared with."""
    tolerance: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Amount by which the metric may be worse than that of the last blessed model."""
    confidence: Annotated[float, Field(strict=True, gt=0.5, lt=1)] | None = None
    """With not_worse_than: the comparison fails only if the metric is worse beyond chance, with this confidence, such
    as 0.95. Chance is estimated from the variation of the two models' difference over groups of the same rows. null:
    the measured values are compared."""

    @model_validator(mode="after")
    def _not_empty(self) -> "Bounds":
        if self.is_empty:
            raise ValueError("give at least one of min, max, not_worse_than.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min must not exceed max. Received: min={self.min:g}, max={self.max:g}.")
        if self.tolerance and self.not_worse_than is None:
            raise ValueError("tolerance requires not_worse_than: blessed. Add it, or lower min.")
        if self.confidence is not None and self.not_worse_than is None:
            raise ValueError("confidence requires not_worse_than: blessed. Add it, or remove confidence.")
        if self.beyond_chance is not None and self.min is None and self.max is None:
            raise ValueError("beyond_chance requires min or max. Add one, or remove beyond_chance.")
        return self

    @property
    def is_empty(self) -> bool:
        """Whether there is no bound."""
        return self.min is None and self.max is None and self.not_worse_than is None

    def chance(self, error: float) -> float:
        """Returns the margin that a metric must keep from min and max, given its standard error.

        Without `beyond_chance` it is 0. If the standard error is unknown it is infinite, so that no value holds.
        """
        if self.beyond_chance is None:
            return 0.0
        return math.inf if math.isnan(error) else quantile(self.beyond_chance) * error


class BlessedBounds(Bounds):
    """Bounds of a new model."""

    not_worse_than: Literal["blessed"] | None = None
    """Compare with the last blessed model. In a first run there is none, and the comparison holds. Given for all rows,
    it holds for the newest span too."""


class SliceBounds(BlessedBounds):
    """Bounds of a metric on every slice of `evaluation.slices`."""

    min_examples: Count = 100
    """Slices with fewer rows are shown and not judged, because their metrics vary by chance. Each entry of
    `evaluation.slices` needs one slice that is judged, or the bounds do not hold."""


class SlicedBounds(BlessedBounds):
    """Bounds of a metric on some rows together, and on each slice of them."""

    slices: SliceBounds | None = None
    """Bounds on every slice of `evaluation.slices` that has `min_examples` rows."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no bound."""
        return not self.bounds_rows and self.slices is None

    @property
    def bounds_rows(self) -> bool:
        """Whether there are bounds on all of the rows together."""
        return not super().is_empty


class Threshold(SlicedBounds):
    """Bounds that a model must hold to be blessed: on the whole eval split, and on the newest span."""

    newest_span: SlicedBounds | None = None
    """Bounds on the rows of the window's newest span alone, if the source has spans. not_worse_than of all rows holds
    there too, with a confidence of 0.95 unless another is given; give it here for other limits."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no bound."""
        return super().is_empty and self.newest_span is None

    @property
    def inherits_comparison(self) -> bool:
        """Whether the comparison of all rows with the last blessed model holds on the newest span too."""
        own = self.newest_span
        return self.not_worse_than is not None and (own is None or own.not_worse_than is None)

    @property
    def compared_on_newest(self) -> SlicedBounds:
        """The bounds on the newest span with the inherited comparison, which fails only beyond chance."""
        confidence = self.confidence or _CONFIDENCE_OF_NEWEST
        compared = {"not_worse_than": self.not_worse_than, "tolerance": self.tolerance, "confidence": confidence}
        own = self.newest_span or SlicedBounds(not_worse_than=self.not_worse_than)
        return own.model_copy(update=compared)


class EvaluationConfig(Spec):
    """Metrics, slices, and thresholds that a model must hold to be blessed."""

    metrics: tuple[Name, ...] = ()
    """By default those of the task. Metrics with a threshold are always measured."""
    slices: tuple[tuple[Name, ...], ...] = ()
    """Lists of raw columns: metrics per combination of their values."""
    decision: DecisionConfig | None = None
    """Binary: one rule by which validation rows choose the threshold of the positive class. null: the likelier class is
    predicted."""
    beyond_reference: Flag = False
    """true refuses a model that is not better than the simple reference beyond chance; false only reports it."""
    thresholds: dict[Name, Threshold] = Field(default_factory=dict)
    """Metric -> its bounds on all rows, slices and the newest span (docs/retraining.md). Without any, every evaluated
    model is blessed."""

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics, and those with a threshold."""
        return tuple(dict.fromkeys((*self.metrics, *self.thresholds)))

    @property
    def compares(self) -> bool:
        """Whether any bound compares with the last blessed model."""
        of_rows = [bounds for t in self.thresholds.values() for bounds in (t, t.newest_span) if bounds is not None]
        every = [*of_rows, *(bounds.slices for bounds in of_rows if bounds.slices is not None)]
        return any(bounds.not_worse_than is not None for bounds in every)
