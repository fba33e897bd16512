"""The page of a watch, and its tables in a terminal."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.text import Text

from fullpass.base.metric_text import metric_text
from fullpass.components.pages.charts import limit_chart
from fullpass.components.pages.render import render_page
from fullpass.components.watch.judge_live import LiveDay
from fullpass.components.watch.judge_traffic import JudgedDay
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.printing import simple_table
from fullpass.pipeline.watching.watch import VersionReport, WatchReport

Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def page_of(report: WatchReport, config: PipelineConfig) -> str:
    """Returns the page of a watch."""
    return render_page(
        "watch.html",
        name=report.pipeline,
        at=f"{report.at:%Y-%m-%d %H:%M %Z}",
        rows=report.rows,
        bad=sum(report.bad.values()),
        notes=[*report.notes, *_bad(report)],
        findings=report.findings,
        versions=[_section(one, report, config) for one in report.versions],
    )


def shown(report: WatchReport) -> RenderableType:
    """Returns a watch as tables for people."""
    parts: list[RenderableType] = []
    for one in report.versions:
        served = ", served" if one.served else ""
        parts.append(Text(f"Version {one.number}{served}:"))
        columns, rows = _days(one)
        parts.append(simple_table(columns, rows, right=columns[1:]))
        parts += [Text(f"- {note}") for note in _notes(one)]
    if not report.versions:
        parts.append(Text("The log has no request to a pushed version."))
    parts += [Text(f"- {note}") for note in (*report.notes, *_bad(report))]
    parts += [Text(finding.words) for finding in report.findings] or [Text("No change is beyond its limit.")]
    return Group(*parts)


def _notes(one: VersionReport) -> Iterator[str]:
    yield from (*one.notes, *one.live.notes)
    if one.shadow is not None:
        yield from one.shadow.words


def _bad(report: WatchReport) -> Iterator[str]:
    for reason, count in report.bad.items():
        yield f"{count:,} rows of the log cannot be read: {reason}"
    if report.later:
        yield f"{report.later:,} rows are later than {report.at:%Y-%m-%d %H:%M %Z}, and do not count."


def _section(one: VersionReport, report: WatchReport, config: PipelineConfig) -> dict[str, Any]:
    judged = one.live.over
    columns = [
        (c.series, day.period.name, f"{c.divergence.js:.4f}", f"{c.divergence.linf:.4f}", f"{c.over:.2f}")
        for day in one.traffic.days
        for c in day.compared
    ]
    columns.sort(key=lambda row: -float(row[-1]))
    names = list(dict.fromkeys(row[0] for row in columns))
    most = [next(row for row in columns if row[0] == name) for name in names]
    slices = [
        (name, f"{rows:,}", *(_cell(of.get(m.metric)) for m in one.live.judged)) for name, rows, of in one.live.slices
    ]
    hours = [(h.name, f"{h.requests:,.0f}", f"{h.refused_share:.1%}") for h in one.traffic.hours]
    return {
        "number": one.number,
        "served": one.served,
        "notes": [*_notes(one)],
        "charts": [*_charts(one, report), *_live_charts(one, report, config)],
        "metrics": one.live.judged,
        "over": f"Labelled rows of {judged[0]} to {judged[1]}" if judged else "",
        "days": _days(one),
        "slices": (("slice", "labels", *(m.metric for m in one.live.judged)), slices),
        "columns": (("column", "day", "Jensen-Shannon", "L-infinity", "of its limit"), most),
        "hours": (("hour (UTC)", "requests", "refused"), hours),
    }


def _charts(one: VersionReport, report: WatchReport) -> Iterator[Markup]:
    """Yields a chart of each column that moved: its divergence by day, as a multiple of its limit."""
    mine = [f for f in report.findings if f.version == one.number and f.check in ("drift", "missing", "columns")]
    for name in dict.fromkeys(f.subject for f in mine):
        values = {day.period.name: _over(day, name) for day in one.traffic.days}
        days = {day for f in mine if f.subject == name for day in values if f.first[:10] <= day <= f.last}
        yield limit_chart(values, 1.0, days, label=f"{name}: divergence / limit")
    for f in (f for f in report.findings if f.version == one.number and f.check == "new_tokens"):
        values = {day.period.name: sum(day.new_tokens.get(f.subject, {}).values()) for day in one.traffic.days}
        days = {day for day in values if f.first[:10] <= day <= f.last}
        yield limit_chart(values, math.nan, days, label=f"{f.subject}: share of rows with new tokens")


def _over(day: JudgedDay, name: str) -> float:
    return max((c.over for c in day.compared if c.series == name), default=math.nan)


def _live_charts(one: VersionReport, report: WatchReport, config: PipelineConfig) -> Iterator[Markup]:
    for metric, bounds in config.watch.live.items():
        values = {day.name: day.metrics[metric].value if metric in day.metrics else math.nan for day in one.live.days}
        found = [f for f in report.findings if (f.version, f.check, f.subject) == (one.number, "live", metric)]
        days = {day for f in found for day in values if f.first <= day <= f.last}
        limit = next((limit for limit in (bounds.min, bounds.max) if limit is not None), math.nan)
        yield limit_chart(values, limit, days, label=f"{metric} on labelled rows")


def _days(one: VersionReport) -> Table:
    judged = {day.period.name: day for day in one.traffic.days}
    metrics = [m.metric for m in one.live.judged] or list(next((d.metrics for d in one.live.days if d.metrics), ()))
    rows = [_day(day, judged.get(day.name), metrics, one) for day in one.live.days]
    return ("day", "requests", "refused", "moved most", "labels", *metrics), rows


def _day(day: LiveDay, judged: JudgedDay | None, metrics: Sequence[str], one: VersionReport) -> tuple[str, ...]:
    hours = [hour for hour in one.traffic.hours if hour.name.startswith(day.name)]
    requests, refused = (sum(getattr(hour, name) for hour in hours) for name in ("requests", "refused"))
    worst = judged.compared[0] if judged is not None and judged.compared else None
    moved = f"{worst.series} {worst.over:.2f}" if worst is not None and worst.over > 0 else ""
    share = f"{day.labels:,} ({day.share:.0%})" if day.labels else ""
    cells = (_cell(day.metrics[m].value, day.metrics[m].half_width) if m in day.metrics else "" for m in metrics)
    return day.name, f"{requests:,.0f}", f"{refused / requests if requests else 0:.1%}", moved, share, *cells


def _cell(value: float | None, half: float | None = None) -> str:
    return "" if value is None or math.isnan(value) else metric_text(value, half)
