"""The part of the report on what scores depend on: the partial dependence on the most important raw columns."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from fullpass.components.evaluation.dependence_file import Dependence
from fullpass.components.report.dependence_charts import dependence_chart, legend


@dataclass(frozen=True)
class ShownDependence:
    """The partial dependence, drawn and as figures.

    Attributes:
        rows: of the eval split that the means are of.
        score: what the scores are, in words.
        series: names of the scores.
        charts: one per column, behind the colours of the series if there are several.
        figures: column, value and the mean score of each series.
        left_out: column and why it has no chart.
    """

    rows: int
    score: str
    series: tuple[str, ...]
    charts: tuple[Markup, ...]
    figures: tuple[tuple[str, ...], ...]
    left_out: tuple[tuple[str, str], ...]


def dependence_section(found: Dependence | None) -> ShownDependence | None:
    """Returns the section; None where nothing was measured. All charts have the same axis of scores."""
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
