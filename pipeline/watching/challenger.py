"""A challenger in the shadow: a model that scores the rows that the served model was asked, and is compared with it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullpass.base.errors import UserError
from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.judge.judge_metric import PlacedBounds, judge_metric
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.log_rows import LoggedColumns
from fullpass.pipeline.registry.compare import ComparedMetric, compared_metrics
from fullpass.pipeline.registry.compared_model import ComparedModel
from fullpass.pipeline.watching.versions import columns_in_log


@dataclass(frozen=True)
class ShadowReport:
    """The answers of the challenger beside those of a version, of the same rows.

    Attributes:
        rows: Number of rows that both have scored, weighed by sampling.
        other_class: The share of them with another class; NaN for a regression.
        distance: The mean distance of the scores; of several classes, of the highest ones.
        labels: Number of rows with a label.
        metrics: A is the version, B the challenger; `compare` shows them so.
        missed: Why it is worse than the served model; () if it is not, or no bound asks.
    """

    name: str
    rows: float
    other_class: float
    distance: float
    labels: int = 0
    metrics: Sequence[ComparedMetric] = ()
    missed: Sequence[str] = ()

    @property
    def words(self) -> Iterator[str]:
        """Yields sentences for people."""
        classes = "" if math.isnan(self.other_class) else f"answers another class in {self.other_class:.1%}, and "
        yield f"{self.name}, in the shadow of {self.rows:,.0f} requests, {classes}scores {self.distance:.3g} apart."
        if not self.labels:
            yield f"{self.name} is not compared by metrics: no label is known yet."
        for one in self.metrics:
            yield (
                f"{one.metric} on {self.labels:,} labels: {metric_text(one.a)}, {self.name} {metric_text(one.b)}, "
                f"difference {metric_text(one.difference, one.half_width)}: {one.words}."
            )
        yield from self.missed


def with_challenger(columns: LoggedColumns, challenger: ComparedModel) -> LoggedColumns:
    """Returns the columns of a version with those that the challenger reads.

    Raises:
        UserError: Its YAML or its files are not there, or it reads a column otherwise.
    """
    if challenger.config is None or challenger.export is None:
        raise UserError(f"{challenger.name}: cannot be a challenger: {challenger.note}.")
    mine = columns_in_log(challenger.config)
    for name in mine.columns.keys() & columns.columns.keys():
        if mine.columns[name] != columns.columns[name]:
            raise UserError(
                f"{challenger.name}: cannot be a challenger: it reads {name} as a {mine.columns[name].type} of another "
                f"kind than the version that was asked, whose {name} is a {columns.columns[name].type}."
            )
    return LoggedColumns({**mine.columns, **columns.columns}, {**mine.late, **columns.late})


def shadow_report(
    name: str, sums: np.ndarray, labelled: MeasuredRows | None, watch: WatchConfig, *, has_classes: bool
) -> ShadowReport:
    """Returns the comparison of a version. labelled: the metrics of the version, and of the challenger as baseline."""
    rows, classes, distance = sums.tolist()
    report = ShadowReport(name, rows, classes / rows if has_classes else math.nan, distance / rows)
    if labelled is None:
        return replace(report, missed=tuple(_missed(None, watch, 0)))
    metrics = compared_metrics(labelled, [*labelled.values])
    # The judge asks whether the first model is worse than the second, and here the challenger is the one in question.
    turned = replace(labelled, values=labelled.baseline, baseline=labelled.values)
    missed = tuple(_missed(turned, watch, labelled.examples))
    return replace(report, labels=labelled.examples, metrics=metrics, missed=missed)


def _missed(turned: MeasuredRows | None, watch: WatchConfig, labels: int) -> Iterator[str]:
    for metric, bounds in watch.live.items():
        compared = bounds.compared("served")
        if compared is None:
            continue
        if turned is None or labels < watch.labels_judged:
            yield f"{metric} is not judged: {labels:,} labels are known, fewer than watch.after ({watch.after})"
        elif missed := judge_metric(metric, turned, PlacedBounds(compared, root="watch.live")).missed:
            yield missed


def shadow_json(report: ShadowReport | None) -> Mapping[str, Any] | None:
    """Returns a comparison as JSON data."""
    if report is None:
        return None
    metrics = [
        {"metric": m.metric, "served": m.a, "challenger": m.b, "half_width": m.half_width, "words": m.words}
        for m in report.metrics
    ]
    return {**vars(report), "metrics": metrics, "missed": [*report.missed]}
