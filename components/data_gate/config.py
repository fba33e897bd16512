"""`gates:` of the YAML: the changes of the data that a run reports, that stop it, or that are a reason to retrain."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fullpass.preprocessing.spec import Count, Fraction, Name, Spec

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
    """Largest Jensen-Shannon divergence to base 2, 0 to 1, beyond the divergence that chance explains for these sample
    sizes."""
    linf: Divergence = 0.2
    """Largest difference between the two shares of a bin (L-infinity), beyond the difference that chance explains."""


class DriftCheck(Divergences):
    """Whether a column has the same distribution as in the previous span, and as in the rest of the window."""

    features: dict[Name, FeatureLimits | Literal["ignore"]] = Field(default_factory=dict)
    """Raw column -> its own limits of drift and of missing values, or `ignore`."""


class LabelCheck(Divergences):
    """Whether the label has the same distribution as in the previous span, and as in the rest of the window."""

    js: Divergence = 0.02
    """Same meaning as in `drift`."""
    linf: Divergence = 0.1
    """Same meaning as in `drift`."""


class MissingCheck(Check):
    """Whether the share of missing values has changed."""

    max_change: Fraction = 0.05
    """Largest change of the share of missing values, up or down, beyond the change that chance explains."""


class RowsCheck(Check):
    """Whether the newest span has as many rows as the earlier spans."""

    min_ratio: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.5
    """Fewest rows, as a share of the median of the earlier spans."""
    max_ratio: Annotated[float, Field(strict=True, gt=1)] = 2.0
    """Most rows, as a multiple of the median of the earlier spans."""


class DroppedColumns(Check):
    """Whether every column still has values."""

    policy: Policy = "stop"
    """Same meaning as in `drift`. The default is stop: a model should rarely lose a column that it was built on."""


class GatesConfig(Spec):
    """Checks before training: the newest span against the previous span, and against the rest of the window.

    Each check has a policy. ignore: the check is skipped. warn: the finding is reported, and the run continues. stop:
    nothing is trained. retrain: the finding is reported, and a schedule with a drift trigger trains; a run that has
    already started continues.
    """

    anomalies: Check = Check()
    """Anomalies that TFDV finds in the examples under the declared schema."""
    new_columns: Check = Check()
    """A column has values now and had none before."""
    dropped_columns: DroppedColumns = DroppedColumns()
    """A column has no value any more."""
    missing: MissingCheck = MissingCheck()
    drift: DriftCheck = DriftCheck()
    label: LabelCheck = LabelCheck()
    rows: RowsCheck = RowsCheck()
    history: Count = 30
    """Number of earlier spans that the row count is compared with. They may be older than the window."""

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return {name: check for name, check in self if isinstance(check, Check)}

    def without_stops(self) -> Self:
        """Returns the section with each `stop` replaced by `warn`, for data that a person has inspected."""
        softened = {
            name: check.model_copy(update={"policy": "warn"})
            for name, check in self.checks.items()
            if check.policy == "stop"
        }
        return self.model_copy(update=softened)
