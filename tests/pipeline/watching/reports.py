"""Reports of a watch of the month of examples/watch: the requests are judged, labels are made up."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np

from fullpass.components.evaluation.judge.verdict import Measured
from fullpass.components.watch.came_in import HourSketches
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.findings import WatchFinding, most_serious_first
from fullpass.components.watch.judge_live import Live, LiveDay, LiveMetric
from fullpass.components.watch.judge_traffic import JudgedTraffic, TrafficJudge
from fullpass.pipeline.watching.watch import VersionReport, WatchReport
from tests.components.watch.watched_month import SERIES, batch_of, load_month, summary_of

month = load_month()


@cache
def traffic(first: int, last: int, policy: str = "warn") -> JudgedTraffic:
    """Returns the requests of the days of January from one to another. policy: of drift."""
    sketches = HourSketches({1: SERIES})
    for day in range(first, last + 1):
        sketches.add(batch_of(month.asked(day, month.orders(day, per_hour=20))))
    before = summary_of(*(batch_of(month.orders(day)) for day in (-1, 0)))
    watch = WatchConfig.model_validate({"drift": policy})
    over = int(np.datetime64("2026-02-01", "h").astype(int))
    return TrafficJudge(1, watch, SERIES.series, before, sketches.counts(), over).judge()


def live_finding(first: str, last: str, **changed: Any) -> WatchFinding:
    """Returns a finding that the AUC misses its bound."""
    fields = {"check": "live", "subject": "auc", "policy": "retrain", "version": 1, "text": "auc is 0.6", "over": 1.0}
    fields["judged"] = last  # labels come later than requests
    return WatchFinding(**{**fields, "first": first, "last": last, **changed})


def report_of(
    last: int, *more: WatchFinding, first: int = 7, policy: str = "warn", versions: tuple[VersionReport, ...] = ()
) -> WatchReport:
    """Returns the report of a watch at the end of a day of January."""
    judged = traffic(first, last, policy)
    days = [LiveDay(day.period.name, 480, 100, {"auc": LiveMetric(0.8, 0.02)}) for day in judged.days]
    met = Measured("auc", 0.6, error=0.01, missed="auc is 0.6") if more else Measured("auc", 0.8)
    live = Live(days, [met], (days[0].name, days[-1].name), {"auc": 0.8}, [("shop north", 40, {"auc": 0.7})])
    whole = (*versions, VersionReport(1, not versions, judged, live))
    findings = most_serious_first([*judged.findings, *more])
    return WatchReport("orders", datetime(2026, 1, last + 1, tzinfo=UTC), 500, 0, {}, whole, findings)
