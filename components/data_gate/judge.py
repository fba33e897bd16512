"""What the gate finds in the newest span: what moved, by how much, against what, and what is to be done about it."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from components.data_gate.config import Check, Divergences, GatesConfig
from components.data_gate.divergence import Divergence, divergence, share_by_chance
from components.data_gate.series import Series
from components.data_gate.summary import Summary, together
from components.data_gate.verdict import Compared, Finding, Verdict

ALL_DATA = "The data"
"""What is judged where there are no spans."""
_SEASONS = {"day": 7, "hour": 24}
"""Unit of spans -> spans after which they are alike again: what differs from the span before, and not from the one a
season before, is told only if it is apart from the window too."""
_OF_DISTRIBUTIONS = ("drift", "label", "missing")
_POISSON = 4.0
"""Standard deviations by which a number of rows fluctuates by chance."""


def judge(
    newest: Summary,
    window: Sequence[Summary],
    earlier: Sequence[Summary],
    series: Sequence[Series],
    config: GatesConfig,
    *,
    unit: str | None = None,
    anomalies: Sequence[str] = (),
) -> Verdict:
    """Returns what is to be said of the newest span.

    Args:
        newest: the span to judge.
        window: the other spans of the window, the oldest first.
        earlier: spans before the newest that are known from other runs, the oldest first.
        series: what is looked at.
        config: the section of the YAML.
        unit: what a span is: days have a week, and hours a day, in which they are unlike each other as a rule.
        anomalies: of TFDV, each in words.
    """
    before = sorted({s.number: s for s in (*earlier, *window)}.values(), key=lambda s: s.number)
    previous = before[-1] if before else None
    rest = together(window) if len(window) > 1 else None
    against = [(_named(previous), previous)] if previous else []
    if rest is not None:
        against.append((f"the window ({window[0].label} to {window[-1].label})", rest))
    season = next((s for s in before if s.number == newest.number - _SEASONS.get(unit or "", 0)), None)
    findings = list(_anomalies(anomalies, config))
    compared = []
    for name, other in against:
        of_other = [_compare(one, newest, name, other, config) for one in series]
        compared += of_other
        for one, c in zip(series, of_other, strict=True):
            moved = [*_missing(one, newest, name, other, config), *_drift(one, c, config)]
            if other is previous:
                if season is not None:
                    usual = {f.check for f in moved} - {f.check for f in _of_distribution(one, newest, season, config)}
                    moved = [f for f in moved if f.check not in usual]
                moved += _columns(one, newest, name, other, config)
            findings += moved
    findings += _rows(newest, before[-config.history :], config)
    told = [finding for finding in _once(findings) if finding.policy != "ignore"]
    alike = season or previous  # the span that the newest should be like
    echoes = _echoes(told, newest, alike, window, series, config) if alike is not None and rest is not None else []
    order = ("stop", "retrain", "warn")
    return Verdict(
        span=newest.label or ALL_DATA,
        rows=newest.rows,
        previous=_named(previous) if previous else "",
        window=against[1][0] if len(against) > 1 else "",
        findings=tuple(sorted((f for f in told if f not in echoes), key=lambda f: (order.index(f.policy), -f.over))),
        compared=tuple(sorted(compared, key=lambda c: -c.over)),
        notes=(*_notes(newest, previous), *(f"As told of {alike.label} already: {f.text}" for f in echoes if alike)),
    )


def _echoes(
    told: Sequence[Finding],
    newest: Summary,
    alike: Summary,
    window: Sequence[Summary],
    series: Sequence[Series],
    config: GatesConfig,
) -> list[Finding]:
    """Returns what was found in the same way of the span before, or a season before, and has not changed since.

    A change that lasts is apart from the window until the window consists of it, and is told once. What stops a run
    stops it until someone has looked, and what is a reason to train is one while the window is mixed.
    """
    repeatable = [f for f in told if f.check in _OF_DISTRIBUTIONS and f.policy == "warn"]
    if not repeatable:
        return []
    rest = together([one for one in window if one is not alike])
    echoes = []
    for finding in repeatable:
        mine = [one for one in series if finding.subject in (one.name, one.column)]
        now, then = (
            any(
                f.check == finding.check and f.subject == finding.subject
                for one in mine
                for f in _of_distribution(one, newer, older, config)
            )
            for newer, older in ((newest, alike), (alike, rest))
        )
        if then and not now:
            echoes.append(finding)
    return echoes


def _of_distribution(one: Series, newer: Summary, older: Summary, config: GatesConfig) -> Iterator[Finding]:
    yield from _missing(one, newer, "", older, config)
    yield from _drift(one, _compare(one, newer, "", older, config), config)


def _named(summary: Summary) -> str:
    return summary.label or "the data of the run before"


def _notes(newest: Summary, previous: Summary | None) -> Iterator[str]:
    if previous is None:
        yield "Nothing to compare with: these are the first data that the gate sees."
    elif newest.number - previous.number > 1:
        gap = newest.number - previous.number - 1
        missing = "1 span" if gap == 1 else f"{gap} spans"
        yield f"{missing} before {newest.label} missing; compared with {previous.label} instead."
    if not newest.rows:
        yield f"{newest.label or ALL_DATA} has no rows; no distribution was compared."


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Returns the most serious finding of each check and subject: against the span before, or against the window."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in sorted(findings, key=lambda f: -f.over):
        first.setdefault((finding.check, finding.subject), finding)
    return list(first.values())


def _limits(one: Series, config: GatesConfig) -> tuple[Check, float, float, float]:
    """Returns check, limits of js, linf and of the change of missing values of a series."""
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


def _compare(one: Series, newest: Summary, against: str, other: Summary, config: GatesConfig) -> Compared:
    _, js, linf, _ = _limits(one, config)
    before, now = other.distributions[one.name], newest.distributions[one.name]
    found = divergence(before, now)
    if not before.rows or not now.rows or _ignored(one, config):
        found = replace(found, js=0.0, linf=0.0)
    return Compared(one.name, against, found, js, linf)


def _drift(one: Series, c: Compared, config: GatesConfig) -> Iterator[Finding]:
    check, _, _, _ = _limits(one, config)
    d = c.divergence
    if c.over <= 1:
        return
    said = [
        f"{name} {value:.3f}, over {limit:g}" + (f" and the {chance:.3f} of chance" if chance >= 0.001 else "")
        for name, value, limit, chance in (
            ("Jensen-Shannon", d.js, c.js_limit, d.js_chance),
            ("L-infinity", d.linf, c.linf_limit, d.linf_chance),
        )
        if value - chance > limit
    ]
    kind = "label" if one.is_label else "drift"
    text = f"{c.series}: moved against {c.against}: {'; '.join(said)}. {_most_moved(d)}"
    if d.unseen:
        text += f" {d.unseen:.1%} of rows have values that were not there before."
    yield Finding(kind, c.series, check.policy, text, c.over)


def _most_moved(d: Divergence) -> str:
    at = max(range(len(d.bins)), key=lambda i: abs(d.now[i] - d.before[i]))
    return f"Most of all {d.bins[at]!r}: {d.before[at]:.1%} of rows before, {d.now[at]:.1%} now."


def _columns(one: Series, newest: Summary, against: str, other: Summary, config: GatesConfig) -> Iterator[Finding]:
    before, now = other.distributions[one.name], newest.distributions[one.name]
    if not (before.rows and now.rows) or _ignored(one, config):
        return
    if now.present and not before.present:
        share = 1 - now.missing_share
        text = f"{one.column}: has values in {share:.1%} of rows; had none in {against}."
        yield Finding("new_columns", one.column, config.new_columns.policy, text, 1 + share)
    if before.present and not now.present:
        text = f"{one.column}: has no value any more; {1 - before.missing_share:.1%} of rows had one in {against}."
        yield Finding("lost_columns", one.column, config.lost_columns.policy, text, 2 - before.missing_share)


def _missing(one: Series, newest: Summary, against: str, other: Summary, config: GatesConfig) -> Iterator[Finding]:
    before, now = other.distributions[one.name], newest.distributions[one.name]
    if not (before.present and now.present) or _ignored(one, config):
        return
    limit = _limits(one, config)[3]
    p, q = before.missing_share, now.missing_share
    pooled = (before.missing + now.missing) / (before.rows + now.rows)
    chance = share_by_chance(pooled, 1 / before.rows + 1 / now.rows)
    change = abs(q - p) - chance
    if change > limit:
        text = (
            f"{one.column}: {q:.1%} of values missing, {p:.1%} in {against}; a change of over {limit:.1%} and the "
            f"{chance:.1%} of chance."
        )
        yield Finding("missing", one.column, config.missing.policy, text, change / max(limit, 1e-3))


def _rows(newest: Summary, before: Sequence[Summary], config: GatesConfig) -> Iterator[Finding]:
    if not before:
        return
    median = statistics.median(summary.rows for summary in before)
    low, high = config.rows.min_ratio * median, config.rows.max_ratio * median
    rows, check = newest.rows, config.rows
    spans = f"the {len(before)} before" if len(before) > 1 else _named(before[0])
    if rows < low - _POISSON * low**0.5:
        text = (
            f"{rows:,} rows, {rows / median:.0%} of the {median:,.0f} of {spans}"
            f"{' (median)' if len(before) > 1 else ''}; fewer than {check.min_ratio:.0%}."
        )
        yield Finding("rows", newest.label or ALL_DATA, check.policy, text, low / max(rows, 1))
    if rows > high + _POISSON * high**0.5 and median:
        text = (
            f"{rows:,} rows, {rows / median:.1f} times the {median:,.0f} of {spans}"
            f"{' (median)' if len(before) > 1 else ''}; more than {check.max_ratio:g} times."
        )
        yield Finding("rows", newest.label or ALL_DATA, check.policy, text, rows / high)


def _anomalies(anomalies: Sequence[str], config: GatesConfig) -> Iterator[Finding]:
    for text in anomalies:
        yield Finding("anomalies", text.partition(":")[0], config.anomalies.policy, text, 1.0)
