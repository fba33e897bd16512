"""What the report shows of a regression's errors: predictions against labels, and residuals by decile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.shown.shown_files import RegressionErrors
from fullpass.components.pages.charts import COLORS, Square, figure, svg

_AREA, _BOTTOM = Square(side=260, left=68), 36
"""The drawing area, left of which numbers of seven digits fit, and the height of the texts below it."""
_Point = tuple[float, float, float]


@dataclass(frozen=True)
class ShownErrors:
    """The charts of a regression, and the number of rows that they show."""

    charts: tuple[Markup, ...]
    rows: int
    points: int


def errors_section(errors: RegressionErrors | None) -> ShownErrors | None:
    """Returns the section; None if there are no errors."""
    if errors is None:
        return None
    points = [(label, predicted, 0.0) for label, predicted in zip(errors.labels, errors.predictions, strict=True)]
    ends = [value for label, predicted, _ in points for value in (label, predicted)]
    deciles = [(d.prediction, d.residual, 0.0 if math.isnan(d.error) else d.error) for d in errors.deciles]
    reach = [end for _, y, error in deciles for end in (y - half_width(error), y + half_width(error))]
    charts = (
        _chart(points, (min(ends), max(ends)), (min(ends), max(ends)), "label", "prediction", diagonal=True),
        _chart(
            deciles,
            (min(x for x, *_ in deciles), max(x for x, *_ in deciles)),
            (min(0.0, *reach), max(0.0, *reach)),
            "mean prediction of a tenth of the rows",
            "mean of label - prediction",
        ),
    )
    return ShownErrors(charts, errors.rows, len(points))


def _chart(
    points: Sequence[_Point],
    across: tuple[float, float],
    up: tuple[float, float],
    x: str,
    y: str,
    *,
    diagonal: bool = False,
) -> Markup:
    """Returns a chart of points with their 95 % intervals, and the line of no error.

    Args:
        points: x, y and standard error of y.
        across, up: The ends of the axes.
        x, y: Their names.
        diagonal: Whether points without an error are on the diagonal; otherwise they are at a y of 0.
    """

    def place(value: float, ends: tuple[float, float]) -> float:
        return (value - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 0.5

    def at(left: float, height: float) -> str:
        return _AREA.at(place(left, across), place(height, up))

    start, end = (0, 1) if diagonal else (place(0, up), place(0, up))
    parts = [_AREA.axes(across, up, x, y), _AREA.line_across(start, end)]
    for left, height, error in points:
        reach = half_width(error)
        if reach:
            parts.append(f'<path d="M{at(left, height - reach)}L{at(left, height + reach)}" stroke="{COLORS[0]}"/>')
        cx, cy = at(left, height).split(",")
        opacity = ' fill-opacity="0.35"' if diagonal else ""
        parts.append(f'<circle cx="{cx}" cy="{cy}" r="2.5" fill="{COLORS[0]}"{opacity}/>')
    label = f"{y} over {x}"
    return figure(svg(_AREA.right + 20, _AREA.bottom + _BOTTOM, "".join(parts), label))
