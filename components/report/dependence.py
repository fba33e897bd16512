"""The partial dependence of the scores on the most important raw columns: charts as inline SVG, and figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from fullpass.components.evaluation.shown_files import ColumnDependence, Dependence
from fullpass.components.pages.charts import COLORS, key, line, shortened, svg


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
_TOP, _BOTTOM = 22, 22
_HEIGHT, _AXIS = 110, 50
_NAMES, _ROW = 120, 17
_MEAN = 'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="3 3"'
_GRID = 'stroke="currentColor" stroke-opacity="0.15"'


def legend(names: Sequence[str]) -> Markup:
    """Returns the legend with the colors of the series."""
    parts = (key(150 * i, 4, COLORS[i], shortened(name)) for i, name in enumerate(names))
    return svg(150 * len(names), 20, "".join(parts), f"colours of {', '.join(names)}")


def dependence_chart(
    shown: ColumnDependence, means: Sequence[float], series: Sequence[str], low: float, high: float
) -> Markup:
    """Returns a small chart: lines for numbers and dates, or one row of dots per value for other columns.

    Args:
        means: The mean score of each series, drawn as a dashed line.
        low, high: The ends of the score axis, low < high.
    """
    label = f"{shown.column}: {'; '.join(_words(shown, number, name) for number, name in enumerate(series))}"
    draw = _line if shown.places else _dots
    return draw(shown, means, low, high, label)


def _words(shown: ColumnDependence, number: int, name: str) -> str:
    scores = shown.scores[number]
    low, high = (scores.index(end) for end in (min(scores), max(scores)))
    return f"{name} from {scores[low]:.3g} at {shown.values[low]} to {scores[high]:.3g} at {shown.values[high]}"


def _line(shown: ColumnDependence, means: Sequence[float], low: float, high: float, label: str) -> Markup:
    first, last = shown.places[0], shown.places[-1]
    inner = _WIDTH - _AXIS - _RIGHT

    def height(score: float) -> float:
        return _TOP + _HEIGHT * (high - score) / (high - low)

    parts = [_title(shown.column)]
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
        parts += [f'<path d="M{_AXIS} {height(means[number]):.1f}h{inner}" {_MEAN}/>', line(points, COLORS[number])]
    y = _TOP + _HEIGHT + 16
    parts.append(f'<text x="{_AXIS}" y="{y}">{escape(shortened(shown.values[0]))}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end">{escape(shortened(shown.values[-1]))}</text>')
    return svg(_WIDTH, _TOP + _HEIGHT + _BOTTOM, "".join(parts), label)


def _dots(shown: ColumnDependence, means: Sequence[float], low: float, high: float, label: str) -> Markup:
    bottom = _TOP + _ROW * len(shown.values)

    def across(score: float) -> float:
        return _NAMES + (_WIDTH - _NAMES - _RIGHT) * (score - low) / (high - low)

    parts = [_title(shown.column)]
    for score, anchor in ((low, "start"), (high, "end")):
        parts.append(f'<path d="M{across(score):.1f} {_TOP}V{bottom}" {_GRID}/>')
        parts.append(f'<text x="{across(score):.1f}" y="{bottom + 14}" text-anchor="{anchor}">{score:.3g}</text>')
    parts += [f'<path d="M{across(mean):.1f} {_TOP}V{bottom}" {_MEAN}/>' for mean in means]
    for i, value in enumerate(shown.values):
        y = _TOP + _ROW * i + _ROW / 2
        parts.append(f'<text x="{_NAMES - 6}" y="{y + 4}" text-anchor="end">{escape(shortened(value))}</text>')
        parts += [
            f'<circle cx="{across(scores[i]):.1f}" cy="{y}" r="3.5" fill="{COLORS[number]}"/>'
            for number, scores in enumerate(shown.scores)
        ]
    return svg(_WIDTH, bottom + _BOTTOM, "".join(parts), label)


def _title(column: str) -> str:
    return f'<text x="4" y="13">{escape(column)}</text>'
