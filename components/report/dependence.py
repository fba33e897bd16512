"""The partial dependence of the scores on the most important raw columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence
from fullpass.components.pages.charts import DASHED, MILLISECONDS, day, name, number
from fullpass.components.pages.vega import BAR, SWITCH, SWITCHED, chart, colors


@dataclass(frozen=True)
class ShownDependence:
    """The partial dependence: one chart per column.

    Attributes:
        left_out: Column and the reason why it has no chart.
    """

    rows: int
    score: str
    charts: tuple[Markup, ...]
    left_out: tuple[tuple[str, str], ...]


def dependence_section(found: Dependence | None, classes: Sequence[str] = ()) -> ShownDependence | None:
    """Returns the section; None if nothing was measured. All charts have the same score axis.

    Args:
        classes: The classes in the order that gives them their colors on the page.
    """
    if found is None:
        return None
    scores = [*found.means, *(score for one in found.columns for series in one.scores for score in series)]
    span = {"domain": [min(scores), max(scores)], "nice": True, "zero": False}
    scale = colors(found.series, among=classes)
    charts = tuple(_chart(one, found, span, scale) for one in found.columns)
    score = "prediction" if found.series == ("prediction",) else f"probability of {', '.join(found.series)}"
    return ShownDependence(found.rows, score, charts, tuple(found.left_out.items()))


def _chart(shown: ColumnDependence, found: Dependence, span: dict[str, Any], scale: dict[str, Any]) -> Markup:
    """Returns a chart: lines for numbers and dates, or a row of dots per value for other columns."""
    scaled = MILLISECONDS if shown.kind == "date" else 1
    places = [place * scaled for place in shown.places] or shown.values
    rows = [
        {"value": value, **({"place": place} if shown.places else {}), "series": series, "score": score}
        for series, scores in zip(found.series, shown.scores, strict=True)
        for value, place, score in zip(shown.values, places, scores, strict=True)
    ]
    means = [{"series": series, "score": mean} for series, mean in zip(found.series, found.means, strict=True)]
    legend = {"columns": 2 if shown.places else 1}  # names of values leave no room for two
    color = name("series", scale=scale, legend=legend if len(found.series) > 1 else None)
    score = number("score", axis={"title": None}, scale=span)
    told = [name("value", shown.column), name("series"), number("score", format=".4~g")]
    untitled = {"title": None, "labelLimit": 140}
    if shown.kind == "date":
        axes = {"x": day("place", axis=untitled), "y": score}
    elif shown.places:
        axes = {"x": number("place", axis=untitled, scale={"zero": False}), "y": score}
    else:
        axes = {"y": name("value", axis=untitled), "x": score}
    mark = {"type": "line", "point": True} if shown.places else {"type": "point", "size": 45}
    layers = [
        {
            "data": {"values": means},
            "mark": DASHED,
            "encoding": {"y" if shown.places else "x": score, "color": color},
        },
        {"params": [SWITCH], "mark": mark, "encoding": {**axes, "color": color, "opacity": SWITCHED, "tooltip": told}},
    ]
    height = 120 if shown.places else BAR * len(shown.values)
    return chart(
        {"data": {"values": rows}, "width": "container", "height": height, "layer": layers}, label=shown.column
    )
