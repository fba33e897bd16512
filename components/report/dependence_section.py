"""The section of the report with the partial dependence of the scores on the most important raw columns."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from fullpass.components.evaluation.shown_files import Dependence
from fullpass.components.report.dependence_charts import dependence_chart, legend


@dataclass(frozen=True)
class ShownDependence:
    """The partial dependence, as charts and as numbers.

    Attributes:
        rows: number of rows of the eval split over which the means are taken.
        score: description of the scores.
        series: names of the scores.
        charts: one chart per column, after the legend if there are several series.
        figures: column, value and the mean score of each series.
        left_out: column and the reason why it has no chart.
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
