"""`evaluation:` of the YAML: what is measured, on which slices, and what a model must reach."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from preprocessing.spec import Count, Name, Real, Spec


class Bounds(Spec):
    """What a metric must reach on some rows."""

    min: Real | None = None
    """Smallest value allowed."""
    max: Real | None = None
    """Largest value allowed."""
    not_worse_than: Literal["blessed"] | None = None
    """Compare with the last blessed model; on a first run there is none, and the comparison holds."""
    tolerance: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """By how much it may be worse than the last blessed model."""

    @model_validator(mode="after")
    def _says_something(self) -> "Bounds":
        if self.is_empty:
            raise ValueError("give at least one of min, max, not_worse_than.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min must not exceed max. Received: min={self.min:g}, max={self.max:g}.")
        if self.tolerance and self.not_worse_than is None:
            raise ValueError("tolerance goes with not_worse_than: blessed. Add that, or lower min.")
        return self

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return self.min is None and self.max is None and self.not_worse_than is None


class SliceBounds(Bounds):
    """What a metric must reach on every slice of `evaluation.slices`, each for itself."""

    min_examples: Count = 100
    """Slices of fewer rows, by their weights, are shown and not judged: chance alone moves them."""


class SlicedBounds(Bounds):
    """What a metric must reach on some rows together, and on each slice of them."""

    slices: SliceBounds | None = None
    """What it must reach on every slice of `evaluation.slices` that has rows enough."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return not self.bounds_rows and self.slices is None

    @property
    def bounds_rows(self) -> bool:
        """Whether anything is asked of the rows together."""
        return not super().is_empty


class Threshold(SlicedBounds):
    """What a metric must reach for a model to be blessed: on all rows of the eval split, and on the newest."""

    newest_span: SlicedBounds | None = None
    """What it must reach on the rows of the window's newest span alone, where the source has spans."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is asked for."""
        return super().is_empty and self.newest_span is None


class EvaluationConfig(Spec):
    """What is measured on the eval split, on which slices, and what a model must reach to be blessed."""

    metrics: tuple[Name, ...] = ()
    """Metric names; by default those usual for the task. Metrics with a threshold are always measured."""
    slices: tuple[tuple[Name, ...], ...] = ()
    """Each entry is a list of raw columns; metrics are also given per combination of their values."""
    thresholds: dict[Name, Threshold] = Field(default_factory=dict)
    """Metric -> what it must reach, on all rows, on each slice, and on the newest span; without any, a model is blessed
    when evaluation succeeds."""
