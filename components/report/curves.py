"""The curves of the report, as inline SVG: ROC, precision-recall and calibration."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.score_curves import Curve, Curves
from fullpass.components.pages.charts import COLORS, Square, figure, legend, svg, svg_line

MODELS = ("new model", "last blessed")


def curve_charts(curves: Sequence[Curves | None], models: Sequence[str] = MODELS) -> tuple[Markup, ...]:
    """Returns the charts; empty if no model has curves. curves: those of each model, in the order of their names."""
    of_models = {name: one for name, one in zip(models, curves, strict=False) if one is not None}
    if not of_models:
        return ()
    roc, precision, calibration = (
        {name: getattr(one, field) for name, one in of_models.items()}
        for field in ("roc", "precision_recall", "calibration")
    )
    return (
        curve_chart(roc, x="false positive rate", y="true positive rate", label="ROC curve", diagonal=True),
        curve_chart(precision, x="recall", y="precision", label="precision-recall curve"),
        curve_chart(
            calibration, x="mean score", y="share positive", label="calibration curve", diagonal=True, points=True
        ),
    )


_AREA, _BOTTOM = Square(side=220, left=40), 35


def curve_chart(
    curves: Mapping[str, Curve], *, x: str, y: str, label: str, diagonal: bool = False, points: bool = False
) -> Markup:
    """Returns a square chart with one line per curve; up to two have a band of their 95 % intervals.

    Args:
        curves: Name -> curve; both axes range from 0 to 1.
        diagonal: Whether to draw the line from (0, 0) to (1, 1).
    """
    parts = [_AREA.axes((0, 1), (0, 1), x, y)]
    if diagonal:
        parts.append(_AREA.line_across(0, 1))
    for number, curve in enumerate(curves.values()):
        parts.append(_line(curve, COLORS[number % len(COLORS)], points=points, band=len(curves) <= 2))
    return figure(svg(_AREA.right + 10, _AREA.bottom + _BOTTOM, "".join(parts), label), legend(list(curves)))


def _line(curve: Curve, color: str, *, points: bool, band: bool) -> str:
    known = [p for p in zip(curve.x, curve.y, curve.error, strict=True) if math.isfinite(p[0]) and math.isfinite(p[1])]
    drawn = svg_line([_AREA.at(x, y) for x, y, _ in known], color, dots=points)
    if not band:
        return drawn
    half_widths = [0.0 if math.isnan(error) else half_width(error) for _, _, error in known]
    above = [_AREA.at(x, min(y + far, 1.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    below = [_AREA.at(x, max(y - far, 0.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    area = f'<polygon fill="{color}" fill-opacity="0.2" points="{" ".join([*above, *below[::-1]])}"/>'
    return area + drawn
