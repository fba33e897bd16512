"""`gates:` of the YAML: the changes of the data that a run reports, that stop it, or that are a reason to retrain."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Fraction, Name, Spec

Policy = Literal["ignore", "warn", "stop", "retrain"]
Divergence = Annotated[float, Field(strict=True, gt=0, le=1)]


class Check(Spec):
    """A check without limits."""

    policy: Policy = "warn"
    """See docs/data-gate.md."""

    @model_validator(mode="before")
    @classmethod
    def _bare_policy(cls, value: Any) -> Any:
        return {"policy": value} if isinstance(value, str) else value


class FeatureLimits(Spec):
    """Limits of one column, which replace the limits of the check."""

    js: Divergence | None = None
    """Largest Jensen-Shannon divergence, to base 2."""
    linf: Divergence | None = None
    """Largest difference between the two shares of a bin."""
    max_missing_change: Fraction | None = None
    """Largest change of the share of missing values."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.js is None and self.linf is None and self.max_missing_change is None:
            raise ValueError("give at least one of js, linf, max_missing_change, or write ignore.")
        return self


class Divergences(Check):
    """Limits on the divergence of a distribution."""

    js: Divergence = 0.1
    """Largest Jensen-Shannon divergence (base 2) beyond chance."""
    linf: Divergence = 0.2
    """Largest difference between the shares of a bin (L-infinity) beyond chance."""


class DriftCheck(Divergences):
    """Whether columns are distributed as before."""

    features: dict[Name, FeatureLimits | Literal["ignore"]] = Field(default_factory=dict)
    """Raw column -> its own limits, or `ignore`."""


class LabelCheck(Divergences):
    """Whether the label is distributed as before."""

    js: Divergence = 0.02
    """As in `drift`."""
    linf: Divergence = 0.1
    """As in `drift`."""


class MissingCheck(Check):
    """Whether the share of missing values has changed."""

    max_change: Fraction = 0.05
    """Largest change, up or down, beyond chance."""


class RowsCheck(Check):
    """Whether there are as many rows as before."""

    min_ratio: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.5
    """Fewest rows, as a share of the median of earlier spans."""
    max_ratio: Annotated[float, Field(strict=True, gt=1)] = 2.0
    """Most rows, as a multiple of that median."""


class DroppedColumns(Check):
    """Whether every column still has values."""

    policy: Policy = "stop"
    """See docs/data-gate.md."""


class GatesConfig(Spec):
    """Checks before training: the newest span against earlier ones (docs/data-gate.md).

    A bare policy such as `stop` uses a check's default limits.
    """

    anomalies: Check = Check()
    """TFDV's anomalies under the declared schema."""
    new_columns: Check = Check()
    """Columns that had no values before."""
    dropped_columns: DroppedColumns = DroppedColumns()
    """Columns that have no value any more."""
    missing: MissingCheck = MissingCheck()
    drift: DriftCheck = DriftCheck()
    label: LabelCheck = LabelCheck()
    rows: RowsCheck = RowsCheck()
    stopped_spans: Literal["stop", "gap"] = "stop"
    """What a window does with an older span that a check has stopped and nobody has released: `stop`, nothing is
    trained; `gap`, it is left out."""
    history: Count = 30
    """Earlier spans for `rows`; they may be older than the window."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return {name: check for name, check in self if isinstance(check, Check)}
