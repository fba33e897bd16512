"""The page of the data gate, written before training, and its section in the report: findings and changed series."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from fullpass.components.data_gate.divergence import MISSING
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateVerdict
from fullpass.components.pages.charts import paired_bars
from fullpass.components.pages.render import render_page

_SHOWN_BINS = 12
"""Bins of a chart at most: those whose share moved most."""


@dataclass(frozen=True)
class Moved:
    """One of the series that changed most. text: its divergences and their limits."""

    series: str
    against: str
    text: str
    chart: Markup


@dataclass(frozen=True)
class Gate:
    """The facts of the section. compared: text that names both sides. moved: the most changed series, worst first."""

    verdict: GateVerdict
    compared: str
    moved: tuple[Moved, ...]


def render_gate(name: str, verdict: GateVerdict) -> str:
    """Returns the page of a verdict. name: of the pipeline."""
    return render_page("data_gate.html", name=name, gate=gate_section(verdict))


def gate_section(verdict: GateVerdict) -> Gate:
    """Returns the facts about a verdict that the page shows."""
    against = " and ".join(filter(None, (verdict.previous, verdict.window)))
    compared = f"{verdict.span}, {verdict.rows:,} rows" + (f", compared with {against}." if against else ".")
    return Gate(verdict, compared, tuple(_moved(one) for one in verdict.worst))


def _moved(one: ComparedSeries) -> Moved:
    d = one.divergence
    text = (
        f"Jensen-Shannon {d.js:.3f} (limit {one.js_limit:g}, chance {d.js_chance:.3f}), "
        f"L-infinity {d.linf:.3f} (limit {one.linf_limit:g}, chance {d.linf_chance:.3f})"
    )
    if d.unseen:
        text += f"; {d.unseen:.1%} of rows have values that were not there before"
    names, before, now = _bins(one)
    label = f"{one.series}: shares before and now"
    return Moved(one.series, one.against, text, paired_bars(names, before, now, label=label))


def _bins(one: ComparedSeries) -> tuple[list[str], list[float], list[float]]:
    """Returns names and shares of the bins that changed most, in their order, and of one bin for all others."""
    d = one.divergence
    every = range(len(d.bins))
    moved = sorted(every, key=lambda i: (d.bins[i] != MISSING, -abs(d.now[i] - d.before[i])))
    shown = sorted(moved[:_SHOWN_BINS], key=lambda i: (float(d.bins[i]) if d.bins[i].isdigit() else math.inf, i))
    names = [d.bins[i] for i in shown]
    before, now = [d.before[i] for i in shown], [d.now[i] for i in shown]
    rest = [i for i in every if i not in shown]
    if rest:
        names.append(f"{len(rest)} others")
        before.append(sum(d.before[i] for i in rest))
        now.append(sum(d.now[i] for i in rest))
    return names, before, now
