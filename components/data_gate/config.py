"""`gates:` of the YAML: which changes of the data a run reports, stops at, or takes as a reason to retrain."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Fraction, Name, Spec

COMPARISON_FILE = "comparison.json"
"""File of a SpanComparison artifact that holds the verdict as JSON."""

Policy = Literal["ignore", "warn", "stop", "retrain"]
Divergence = Annotated[float, Field(strict=True, gt=0, le=1)]


class Check(Spec):
    """One check. A bare policy such as `stop` stands for the default limits with that policy."""

    policy: Policy = "warn"
    """ignore, warn, stop or retrain, see `gates`."""

    @model_validator(mode="before")
    @classmethod
    def _bare_policy(cls, value: Any) -> Any:
        return {"policy": value} if isinstance(value, str) else value


class FeatureLimits(Spec):
    """Limits of one column, in place of those of the check."""

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
    """Limits on the divergence of a distribution."""

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
    """Whether the share of missing values has changed."""

    max_change: Fraction = 0.05
    """Largest change of the share of missing values, up or down, beyond what chance gives."""


class RowsCheck(Check):
    """Whether the newest span has as many rows as those before."""

    min_ratio: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.5
    """Fewest rows, as a share of the median of the spans before."""
    max_ratio: Annotated[float, Field(strict=True, gt=1)] = 2.0
    """Most rows, as a multiple of the median of the spans before."""


class DroppedColumns(Check):
    """Whether every column still has values."""

    policy: Policy = "stop"
    """As of `drift`. By default a run stops, because a model rarely should lose a column that it was built on."""


class GatesConfig(Spec):
    """Checks before training: the newest span against the span before it, and against the rest of the window.

    Each check has a policy. ignore: the check is left out. warn: the finding is reported, and the run goes on. stop:
    nothing is trained. retrain: the finding is reported, and a schedule with a drift trigger trains; a run that has
    begun goes on.
    """

    anomalies: Check = Check()
    """TFDV's anomalies of the examples against the declared schema."""
    new_columns: Check = Check()
    """A column has values that had none before."""
    dropped_columns: DroppedColumns = DroppedColumns()
    """A column has no value any more."""
    missing: MissingCheck = MissingCheck()
    drift: DriftCheck = DriftCheck()
    label: LabelCheck = LabelCheck()
    rows: RowsCheck = RowsCheck()
    history: Count = 30
    """How many spans before the newest the row count is compared with; they may be older than the window."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """Check by name."""
        return {name: check for name, check in self if isinstance(check, Check)}

    def without_stops(self) -> Self:
        """Returns the section with each `stop` replaced by `warn`, for data that a person has looked at."""
        softened = {
            name: check.model_copy(update={"policy": "warn"})
            for name, check in self.checks.items()
            if check.policy == "stop"
        }
        return self.model_copy(update=softened)
