"""The sections `serving_log:` and `watch:` of the YAML: where the request log is, and what a watch measures."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fullpass.components.data_gate.config import Check, DriftCheck, MissingCheck, Policy
from fullpass.components.evaluation.config import Bounds, Compared
from fullpass.components.ingest.joins.config import AsOf, Join
from fullpass.components.ingest.sources.formats import Source
from fullpass.components.serving_log import columns as log
from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.spec import Count, Fraction, Name, Real, Spec

WATCHED_AT = "log_watched_at"
"""Column that a watch adds to the rows: the time up to which labels count as known."""
LABELS, TRAINING = "labels", "training"
"""Names of the joins of the labels, and of the training rows."""


class ServingLogConfig(Spec):
    """The request log of the served model. The names of its columns are those of Fullpass' own log."""

    source: Source
    """Its files, in any format with named columns."""
    id: Name = log.ID.name
    """Column with the id of a row, by which labels and training rows are found."""
    time: Name = log.TIME.name
    """Column with the time of the request."""
    format: WrittenDateFormat = "iso"
    """Format of `time`, as in a date feature; a time without an offset is UTC."""
    version: Name = log.VERSION.name
    """Column with the version that answered. A log without it is one of the served version."""
    sampled: Name = log.SAMPLED.name
    """Column with the probability with which a request is logged: a row counts 1 / p. Without it, all are logged."""
    status: Name = log.STATUS.name
    """Column with the HTTP status; from 400 on the request was refused. Without it, none was."""
    scores: Name = log.SCORES.name
    """Column with the scores that were answered. Without it, the exported version scores the rows again."""
    label: Name = log.LABEL.name
    """Column with the class that was answered."""

    @property
    def own(self) -> dict[str, str]:
        """Column of `serving_log.columns` -> its name in this log."""
        names = ("id", "time", "version", "sampled", "status", "scores", "label")
        return {name: getattr(self, name) for name in names}


class LabelTable(Spec):
    """A table with the labels, which come later than the requests."""

    source: Source
    """The table, in any format, with the columns that the label is made of."""
    on: Name | Annotated[dict[Name, Name], Field(min_length=1, max_length=1)]
    """Its column with the id of the log; or column of the log -> column of the table."""
    at: Name | None = None
    """Its date column that tells when a label was known. Without it, every label counts as known."""
    format: WrittenDateFormat = "iso"
    """Format of `at`, as in a date feature; a date without an offset is UTC."""

    def join(self, id: str) -> Join:
        """Returns the join of the table, to rows with the column `id` and, if labels have a time, WATCHED_AT."""
        on = self.on if isinstance(self.on, dict) else {id: self.on}
        known = None if self.at is None else AsOf(left=WATCHED_AT, right=self.at, right_format=self.format)
        return Join(source=self.source, on=on, as_of=known, duplicates="last")


class LiveBounds(Spec):
    """Bounds of a metric on the rows whose labels are known, beyond what chance explains."""

    min: Real | None = None
    """Smallest value."""
    max: Real | None = None
    """Largest value."""
    not_worse_than: Literal["eval", "served"] | None = None
    """eval: compare with the metric of the version on its eval split. served: compare a challenger with the served
    model on the same rows, before `fullpass bless` pushes it."""
    tolerance: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Amount by which the metric may be worse."""
    confidence: Annotated[float, Field(strict=True, gt=0.5, lt=1)] = 0.999
    """Confidence with which a missed bound is more than chance."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.min is None and self.max is None and self.not_worse_than is None:
            raise ValueError("give at least one of min, max, not_worse_than.")
        return self

    def compared(self, with_: Compared) -> Bounds | None:
        """Returns the comparison as the judge of the Evaluator takes it; None if it is with something else."""
        if self.not_worse_than != with_:
            return None
        return Bounds(not_worse_than=with_, tolerance=self.tolerance, confidence=self.confidence)


class TokensCheck(Check):
    """Whether requests have tokens that no training row has."""

    max_share: Fraction = 0.01
    """Largest share of the rows with one such token, beyond chance."""


class RefusedCheck(Check):
    """Whether requests are refused."""

    max_share: Fraction = 0.01
    """Largest share of refused requests, beyond chance."""


class AnswersCheck(Check):
    """Whether the exported version gives the answers that were logged. A sample of each hour is computed again."""

    tolerance: Annotated[float, Field(strict=True, gt=0)] = 1e-4
    """Difference of a score that counts as none; of scores above 1 this share of them."""
    max_share: Fraction = 0.001
    """Largest share of rows that differ by more."""


class SkewCheck(Check):
    """Whether the training data, where it later has the id of a logged row, has the values that the model saw."""

    on: Name | None = None
    """Column of `data.source` with the id of the log; null: it is that of `watch.labels.on`."""
    max_share: Fraction = 0.01
    """Largest share of rows whose value of a column differs."""
    tolerance: Annotated[float, Field(strict=True, ge=0, lt=1)] = 1e-5
    """Difference of two numbers that counts as none, as a share of the larger one."""
    entity: Name | None = None
    """Column of the log and of `data.source` with the entity of a row, such as a customer, to tell stale values."""
    at: Name | None = None
    """Column of `data.source` with the time of a row, in the format iso: the row before of an entity is found by it."""

    @model_validator(mode="after")
    def _entity_and_time(self) -> Self:
        if (self.entity is None) != (self.at is None):
            raise ValueError("entity and at belong together. Give both, or none.")
        return self


class WatchConfig(Spec):
    """What is expected of the served model (docs/watch.md). A bare policy such as `stop` uses the limits of a check."""

    labels: LabelTable | None = None
    """Where labels come from; null: metrics are not known."""
    live: dict[Name, LiveBounds] = Field(default_factory=dict)
    """Metric -> its bounds on labelled rows."""
    live_policy: Policy = "retrain"
    """What a missed bound of `live` is: `warn`, `retrain`, or `stop`."""
    after: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8} labels$")] = "500 labels"
    """Labels that are judged together: those of the newest days that have as many."""
    days: Count = 30
    """Days of the log that are read, up to its newest row."""
    drift: DriftCheck = DriftCheck()
    """Whether a day is distributed as the training rows of the version that answered."""
    missing: MissingCheck = MissingCheck()
    columns: Check = Check()
    """Columns that have no value any more, or had none in training."""
    new_tokens: TokensCheck = TokensCheck()
    refused: RefusedCheck = RefusedCheck()
    answers: AnswersCheck = AnswersCheck()
    skew: SkewCheck = SkewCheck()
    """Without this section, training rows are not looked up."""

    @property
    def training_id(self) -> str | None:
        """The column of the training rows with the id of the log; None if there is none, or no section `skew`."""
        if "skew" not in self.model_fields_set:
            return None
        if self.skew.on is not None or self.labels is None:
            return self.skew.on
        return self.labels.on if isinstance(self.labels.on, str) else next(iter(self.labels.on.values()))

    @property
    def labels_judged(self) -> int:
        """The number of `after`."""
        return int(self.after.split()[0])
