"""`gates:` of the YAML: which changes of the data a run tells, stops at, or takes as a reason to retrain."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from preprocessing.spec import Count, Fraction, Name, Spec

COMPARISON_FILE = "comparison.json"
"""Of a SpanComparison artifact: what was found."""

Policy = Literal["ignore", "warn", "stop", "retrain"]
Divergence = Annotated[float, Field(strict=True, gt=0, le=1)]


class Check(Spec):
    """One check; a bare policy such as `stop` is short for the defaults with that policy."""

    policy: Policy = "warn"
    """ignore: not looked at. warn: told, and the run goes on. stop: nothing is trained. retrain: told, and a reason for
    a schedule with a drift trigger to train; a run that is under way goes on."""

    @model_validator(mode="before")
    @classmethod
    def _bare_policy(cls, value: Any) -> Any:
        return {"policy": value} if isinstance(value, str) else value


class FeatureLimits(Spec):
    """Limits of one column in place of those of all."""

    js: Divergence | None = None
    """Jensen-Shannon divergence, to base 2."""
    linf: Divergence | None = None
    """Largest difference of a bin's share."""
    max_missing_change: Fraction | None = None
    """Change of the share of missing values."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.js is None and self.linf is None and self.max_missing_change is None:
            raise ValueError("give at least one of js, linf, max_missing_change, or write ignore.")
        return self


class Divergences(Check):
    """Limits of what a distribution may diverge."""

    js: Divergence = 0.1
    """Largest Jensen-Shannon divergence to base 2, 0 to 1, beyond what chance gives in samples of these sizes."""
    linf: Divergence = 0.2
    """Largest difference of the share of a bin (L-infinity), beyond what chance gives."""


class DriftCheck(Divergences):
    """Whether a column is distributed as in the span before, and as in the rest of the window."""

    features: dict[Name, FeatureLimits | Literal["ignore"]] = Field(default_factory=dict)
    """Raw column -> limits of its own, for drift and missing values, or `ignore`."""


class LabelCheck(Divergences):
    """Whether the label is distributed as in the span before, and as in the rest of the window."""

    js: Divergence = 0.02
    """As of `drift`."""
    linf: Divergence = 0.1
    """As of `drift`."""


class MissingCheck(Check):
    """Whether as many values are missing as before."""

    max_change: Fraction = 0.05
    """Largest change of the share of missing values, up or down, beyond what chance gives."""


class RowsCheck(Check):
    """Whether the newest span has as many rows as those before."""

    min_ratio: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.5
    """Fewest rows, as a share of the median of the spans before."""
    max_ratio: Annotated[float, Field(strict=True, gt=1)] = 2.0
    """Most rows, as a multiple of the median of the spans before."""


class LostColumns(Check):
    """Whether every column still has values."""

    policy: Policy = "stop"
    """As of `drift`; a model that goes on without a column it was built on is seldom meant."""


class GatesConfig(Spec):
    """What a run looks at before it trains: the newest span against the span before it and the rest of the window."""

    anomalies: Check = Check()
    """TFDV's anomalies of the examples against the declared schema."""
    new_columns: Check = Check()
    """A column has values that had none before."""
    lost_columns: LostColumns = LostColumns()
    """A column has no value any more."""
    missing: MissingCheck = MissingCheck()
    drift: DriftCheck = DriftCheck()
    label: LabelCheck = LabelCheck()
    rows: RowsCheck = RowsCheck()
    history: Count = 30
    """Spans before the newest whose rows are counted, where the window does not reach so far back."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """Check by name."""
        return {name: check for name, check in self if isinstance(check, Check)}

    def without_stops(self) -> Self:
        """Returns the section with `stop` turned into `warn`: the data was looked at, and is as it should be."""
        softened = {
            name: check.model_copy(update={"policy": "warn"})
            for name, check in self.checks.items()
            if check.policy == "stop"
        }
        return self.model_copy(update=softened)
