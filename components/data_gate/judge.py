"""Compares the newest span with the previous span and with the rest of the window, and reports the changes."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fullpass.components.data_gate.config import Check, Divergences, GatesConfig
from fullpass.components.data_gate.divergence import Divergence, divergence, share_by_chance
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateFinding, GateVerdict
from fullpass.components.data_gate.series import Series
from fullpass.components.data_gate.span_summary import SpanSummary, merge_spans

ALL_DATA = "The data"
"""Name of the data of a source without spans."""
_SEASONS = {"day": 7, "hour": 24}
"""Span unit -> length of a season, in spans. If the newest span differs from the previous span and does not differ from
the span one season earlier, the change is reported only if the newest span also differs from the window."""
_OF_DISTRIBUTIONS = ("drift", "label", "missing")
_LEAST_SHOWN = 0.001
"""Smallest difference by chance that a finding names, as findings show three digits."""
_POISSON = 4.0
"""Deviation of a row count, in standard deviations, that is attributed to chance."""


def judge_span(
    newest: SpanSummary,
    window: Sequence[SpanSummary],
    earlier: Sequence[SpanSummary],
    series: Sequence[Series],
    config: GatesConfig,
    *,
    unit: str | None = None,
    anomalies: Sequence[str] = (),
    looks: int = 1,
) -> GateVerdict:
    """Returns the verdict on the newest span.

    Args:
        window: The other spans of the window, the oldest first.
        earlier: Spans before the newest that earlier runs have summarized, the oldest first.
        unit: Length of a span. It determines the season: days differ within a week, and hours within a day.
        looks: Number of comparisons that chance may exceed together as often as one, of several calls.
    """
    window, earlier = ([s for s in spans if s.rows] for spans in (window, earlier))  # a span without rows is a gap
    before = sorted({s.number: s for s in (*earlier, *window)}.values(), key=lambda s: s.number)
    previous = before[-1] if before else None
    rest = merge_spans(window) if len(window) > 1 else None
    against = [(_label(previous), previous)] if previous else []
    if rest is not None:
        against.append((f"the window ({window[0].label} to {window[-1].label})", rest))
    season = next((s for s in before if s.number == newest.number - _SEASONS.get(unit or "", 0)), None)
    policy = config.anomalies.policy
    findings = [GateFinding("anomalies", text.partition(":")[0], policy, text, 1.0) for text in anomalies]
    compared = []
    for name, other in against:
        of_other = [_compare(one, newest, name, other, config, looks) for one in series]
        compared += of_other
        for one, c in zip(series, of_other, strict=True):
            moved = [*_missing(one, newest, name, other, config, looks), *_drift(one, c, config)]
            if other is previous:
                if season is not None:
                    usual = {f.check for f in moved} - {f.check for f in _of_distribution(one, newest, season, config)}
                    moved = [f for f in moved if f.check not in usual]
                moved += _columns(one, newest, name, other, config)
            findings += moved
    findings += _rows(newest, before[-config.history :], config)
    findings = [finding for finding in _most_serious(findings) if finding.policy != "ignore"]
    reference = season or previous
    repeated = []
    if reference is not None and rest is not None:
        repeated = _repeated(findings, newest, reference, window, series, config)
    return GateVerdict(
        span=newest.label or ALL_DATA,
        rows=newest.rows,
        previous=_label(previous) if previous else "",
        window=against[1][0] if len(against) > 1 else "",
        findings=by_severity(f for f in findings if f not in repeated),
        compared=tuple(sorted(compared, key=lambda c: -c.over)),
        notes=(
            *_notes(newest, previous),
            *(f"Already reported for {reference.label}: {f.text}" for f in repeated if reference),
        ),
    )


def by_severity(findings: Iterable[GateFinding]) -> tuple[GateFinding, ...]:
    """Returns findings, the most serious first."""
    order = ("stop", "retrain", "warn")
    return tuple(sorted(findings, key=lambda f: (order.index(f.policy), -f.over)))


def _repeated(
    findings: Sequence[GateFinding],
    newest: SpanSummary,
    reference: SpanSummary,
    window: Sequence[SpanSummary],
    series: Sequence[Series],
    config: GatesConfig,
) -> list[GateFinding]:
    """Returns the warnings that also apply to the reference span and have not changed since.

    A lasting change differs from the window until it fills the window. It is reported once; the verdicts on later spans
    carry a note. Findings that stop a run or are a reason to train are reported each time.

    Args:
        reference: The span one season earlier, or the previous span.
        window: The other spans of the window.
    """
    warnings = [f for f in findings if f.check in _OF_DISTRIBUTIONS and f.policy == "warn"]
    if not warnings:
        return []
    rest = merge_spans([one for one in window if one is not reference])
    repeated = []
    for finding in warnings:
        mine = [one for one in series if finding.subject in (one.name, one.column)]
        now, then = (
            any(
                f.check == finding.check and f.subject == finding.subject
                for one in mine
                for f in _of_distribution(one, newer, older, config)
            )
            for newer, older in ((newest, reference), (reference, rest))
        )
        if then and not now:
            repeated.append(finding)
    return repeated


def _of_distribution(one: Series, newer: SpanSummary, older: SpanSummary, config: GatesConfig) -> Iterator[GateFinding]:
    yield from _missing(one, newer, "", older, config)
    yield from _drift(one, _compare(one, newer, "", older, config), config)


def _label(summary: SpanSummary) -> str:
    return summary.label or "the data of the previous run"


def _notes(newest: SpanSummary, previous: SpanSummary | None) -> Iterator[str]:
    if previous is None:
        yield "There is nothing to compare with: these are the first data that the gate checks."
    elif newest.number - previous.number > 1:
        gap = newest.number - previous.number - 1
        missing = "1 span" if gap == 1 else f"{gap} spans"
        yield f"{missing} before {newest.label} missing or stopped; compared with {previous.label} instead."
    if not newest.rows:
        yield f"{newest.label or ALL_DATA} has no rows; no distribution was compared."


def _most_serious(findings: Sequence[GateFinding]) -> list[GateFinding]:
    """Returns one finding per check and subject: the more serious of those against the previous span and the window."""
    worst: dict[tuple[str, str], GateFinding] = {}
    for finding in sorted(findings, key=lambda f: -f.over):
        worst.setdefault((finding.check, finding.subject), finding)
    return list(worst.values())


def _limits(one: Series, config: GatesConfig) -> tuple[Check, float, float, float]:
    """Returns the check of a series, and its limits of js, linf, and the change of the share of missing values."""
    check: Divergences = config.label if one.is_label else config.drift
    own = None if one.is_label else config.drift.features.get(one.column)
    missing = config.missing.max_change
    if own is None:
        return check, check.js, check.linf, missing
    if own == "ignore":
        return check.model_copy(update={"policy": "ignore"}), 1.0, 1.0, 1.0
    return (
        check,
        own.js or check.js,
        own.linf or check.linf,
        missing if own.max_missing_change is None else own.max_missing_change,
    )


def _ignored(one: Series, config: GatesConfig) -> bool:
    return not one.is_label and config.drift.features.get(one.column) == "ignore"


def _compare(
    one: Series, newest: SpanSummary, against: str, other: SpanSummary, config: GatesConfig, looks: int = 1
) -> ComparedSeries:
    _, js, linf, _ = _limits(one, config)
    before, now = other.distributions[one.name], newest.distributions[one.name]
    difference = divergence(before, now, looks=looks)
    if not before.rows or not now.rows or _ignored(one, config):
        difference = replace(difference, js=0.0, linf=0.0)
    return ComparedSeries(one.name, against, difference, js, linf)


def _drift(one: Series, c: ComparedSeries, config: GatesConfig) -> Iterator[GateFinding]:
    check, _, _, _ = _limits(one, config)
    d = c.divergence
    if c.over <= 1:
        return
    exceeded = [
        f"{name} {value:.3f}, over {limit:g}" + (f" plus {chance:.3f} by chance" if chance >= _LEAST_SHOWN else "")
        for name, value, limit, chance in (
            ("Jensen-Shannon", d.js, c.js_limit, d.js_chance),
            ("L-infinity", d.linf, c.linf_limit, d.linf_chance),
        )
        if value - chance > limit
    ]
    kind = "label" if one.is_label else "drift"
    text = f"{c.series}: drifted from {c.against}: {'; '.join(exceeded)}. {_most_moved(d)}"
    if d.unseen:
        text += f" {d.unseen:.1%} of rows have values that did not occur before."
    yield GateFinding(kind, c.series, check.policy, text, c.over)


def _most_moved(d: Divergence) -> str:
    index = max(range(len(d.bins)), key=lambda i: abs(d.now[i] - d.before[i]))
    return f"The largest change is in {d.bins[index]!r}: {d.before[index]:.1%} of rows before, {d.now[index]:.1%} now."


def _columns(
    one: Series, newest: SpanSummary, against: str, other: SpanSummary, config: GatesConfig
) -> Iterator[GateFinding]:
    before, now = other.distributions[one.name], newest.distributions[one.name]
    if not (before.rows and now.rows) or _ignored(one, config):
        return
    if now.present and not before.present:
        share = 1 - now.missing_share
        text = f"{one.column}: has values in {share:.1%} of rows; had none in {against}."
        yield GateFinding("new_columns", one.column, config.new_columns.policy, text, 1 + share)
    if before.present and not now.present:
        text = f"{one.column}: has no value any more; {1 - before.missing_share:.1%} of rows had one in {against}."
        yield GateFinding("dropped_columns", one.column, config.dropped_columns.policy, text, 2 - before.missing_share)


def _missing(
    one: Series, newest: SpanSummary, against: str, other: SpanSummary, config: GatesConfig, looks: int = 1
) -> Iterator[GateFinding]:
    before, now = other.distributions[one.name], newest.distributions[one.name]
    if not (before.present and now.present) or _ignored(one, config):
        return
    limit = _limits(one, config)[3]
    p, q = before.missing_share, now.missing_share
    pooled = (before.missing + now.missing) / (before.rows + now.rows)
    chance = share_by_chance(pooled, 1 / before.rows + 1 / now.rows, looks)
    change = abs(q - p) - chance
    if change > limit:
        text = (
            f"{one.column}: {q:.1%} of values missing, {p:.1%} in {against}; a change of over {limit:.1%} plus "
            f"{chance:.1%} by chance."
        )
        yield GateFinding("missing", one.column, config.missing.policy, text, change / max(limit, _LEAST_SHOWN))


def _rows(newest: SpanSummary, before: Sequence[SpanSummary], config: GatesConfig) -> Iterator[GateFinding]:
    if not before:
        return
    median = statistics.median(summary.rows for summary in before)
    low, high = config.rows.min_ratio * median, config.rows.max_ratio * median
    rows, check = newest.rows, config.rows
    spans = f"the {len(before)} before (median)" if len(before) > 1 else _label(before[0])
    if rows < low - _POISSON * low**0.5:
        share = f"{rows / median:.0%} of the {median:,.0f} of {spans}"
        text = f"{rows:,} rows, {share}; fewer than {check.min_ratio:.0%}."
        yield GateFinding("rows", newest.label or ALL_DATA, check.policy, text, low / max(rows, 1))
    if rows > high + _POISSON * high**0.5 and median:
        share = f"{rows / median:.1f} times the {median:,.0f} of {spans}"
        text = f"{rows:,} rows, {share}; more than {check.max_ratio:g} times."
        yield GateFinding("rows", newest.label or ALL_DATA, check.policy, text, rows / high)
