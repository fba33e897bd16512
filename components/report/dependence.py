"""The partial dependence of the scores on the most important raw columns: charts as inline SVG, and figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence
from fullpass.components.pages.charts import COLORS, figure, legend, svg, svg_line


@dataclass(frozen=True)
class ShownDependence:
    """The partial dependence, as charts and as numbers.

    Attributes:
        charts: One chart per column, after the legend if there are several series.
        figures: Column, value and the mean score of each series.
        left_out: Column and the reason why it has no chart.
    """

    rows: int
    score: str
    series: tuple[str, ...]
    charts: tuple[Markup, ...]
    figures: tuple[tuple[str, ...], ...]
    left_out: tuple[tuple[str, str], ...]


def dependence_section(found: Dependence | None) -> ShownDependence | None:
    """Returns the section; None if nothing was measured. All charts have the same score axis."""
    if found is None:
        return None
    scores = [*found.means, *(score for one in found.columns for series in one.scores for score in series)]
    low, high = min(scores), max(scores)
    if low == high:
        low, high = low - 0.5, high + 0.5
    charts = tuple(dependence_chart(one, found.means, found.series, low, high) for one in found.columns)
    colours = (legend(found.series),) if charts and len(found.series) > 1 else ()
    score = "prediction" if found.series == ("prediction",) else f"probability of {', '.join(found.series)}"
    return ShownDependence(
        found.rows, score, found.series, colours + charts, tuple(_figures(found)), tuple(found.left_out.items())
    )


def _figures(found: Dependence) -> Iterator[tuple[str, ...]]:
    for one in found.columns:
        for i, value in enumerate(one.values):
            yield (one.column, value, *(f"{scores[i]:.4g}" for scores in one.scores))


_WIDTH, _RIGHT = 310, 14
_TOP, _BOTTOM = 8, 22
_HEIGHT, _AXIS = 110, 50
"""Pixels of the area of a chart, and of the texts of its axis: small, since ten charts may stand beside each other."""
_MEAN = 'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="3 3"'
_GRID = 'stroke="currentColor" stroke-opacity="0.15"'
_DAYS_WITHOUT_TIME = 3
"""Days from which on the time of day of the ends of an axis tells nothing."""


def dependence_chart(
    shown: ColumnDependence, means: Sequence[float], series: Sequence[str], low: float, high: float
) -> Markup:
    """Returns a small chart: lines for numbers and dates, or one row of dots per value for other columns.

    Args:
        means: The mean score of each series, drawn as a dashed line.
        low, high: The ends of the score axis, low < high.
    """
    label = f"{shown.column}: {'; '.join(_words(shown, number, name) for number, name in enumerate(series))}"
    chart = (_line if shown.places else _dots)(shown, means, low, high, label)
    return figure(chart, title=shown.column)


def _words(shown: ColumnDependence, number: int, name: str) -> str:
    scores = shown.scores[number]
    low, high = (scores.index(end) for end in (min(scores), max(scores)))
    return f"{name} from {scores[low]:.3g} at {shown.values[low]} to {scores[high]:.3g} at {shown.values[high]}"


def _line(shown: ColumnDependence, means: Sequence[float], low: float, high: float, label: str) -> Markup:
    first, last = shown.places[0], shown.places[-1]
    inner = _WIDTH - _AXIS - _RIGHT

    def height(score: float) -> float:
        return _TOP + _HEIGHT * (high - score) / (high - low)

    parts = []
    for score in (low, (low + high) / 2, high):
        y = height(score)
        parts.append(
            f'<path d="M{_AXIS} {y:.1f}h{inner}" {_GRID}/>'
            f'<text x="{_AXIS - 5}" y="{y + 4:.1f}" text-anchor="end">{score:.3g}</text>'
        )
    for number, scores in enumerate(shown.scores):
        points = [
            f"{_AXIS + inner * (place - first) / (last - first):.1f},{height(score):.1f}"
            for place, score in zip(shown.places, scores, strict=True)
        ]
        parts += [f'<path d="M{_AXIS} {height(means[number]):.1f}h{inner}" {_MEAN}/>', svg_line(points, COLORS[number])]
    y = _TOP + _HEIGHT + 16
    start, end = _ends(shown.kind, shown.values[0], shown.values[-1])
    parts.append(f'<text x="{_AXIS}" y="{y}">{escape(start)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end">{escape(end)}</text>')
    return svg(_WIDTH, _TOP + _HEIGHT + _BOTTOM, "".join(parts), label)


def _ends(kind: str, start: str, end: str) -> tuple[str, str]:
    """Returns both ends of an axis; moments without seconds, and without the time of day if they are days apart."""
    if kind != "date" or "T" not in start:
        return start, end
    moments = datetime.fromisoformat(start), datetime.fromisoformat(end)
    form = "%Y-%m-%d" if (moments[1] - moments[0]).days >= _DAYS_WITHOUT_TIME else "%Y-%m-%d %H:%M"
    return moments[0].strftime(form), moments[1].strftime(form)


def _dots(shown: ColumnDependence, means: Sequence[float], low: float, high: float, label: str) -> Markup:
    """Returns a table of values with their dots, since a value may be a long text."""

    def across(score: float) -> float:
        return 100 * (score - low) / (high - low)

    ends = f'<path d="M0 0v18" {_GRID}/><line x1="100%" x2="100%" y2="18" {_GRID}/>'
    ends += "".join(f'<line x1="{across(mean):.1f}%" x2="{across(mean):.1f}%" y2="18" {_MEAN}/>' for mean in means)
    rows = []
    for i, value in enumerate(shown.values):
        dots = "".join(
            f'<circle cx="{across(scores[i]):.1f}%" cy="9" r="3.5" fill="{COLORS[number]}"/>'
            for number, scores in enumerate(shown.scores)
        )
        drawn = Markup(f'<svg aria-hidden="true" width="100%" height="18">{ends}{dots}</svg>')
        rows.append(Markup("<tr><th>{}</th><td>{}</td></tr>").format(value, drawn))
    axis = Markup("<tr><th></th><td><span>{:.3g}</span><span>{:.3g}</span></td></tr>").format(low, high)
    return Markup('<table class="dots" aria-label="{}">{}{}</table>').format(label, Markup("").join(rows), axis)
