"""The curves of the report, as inline SVG: ROC, precision-recall and calibration."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.score_curves import Curve, Curves
from fullpass.components.pages.charts import COLORS, key, line, shortened, svg

MODELS = ("new model", "last blessed")


def curve_charts(curves: Sequence[Curves | None]) -> tuple[Markup, ...]:
    """Returns the charts; empty if no model has curves. curves: those of each model, the new model first."""
    of_models = {name: one for name, one in zip(MODELS, curves, strict=False) if one is not None}
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


_SIDE, _LEFT, _TOP, _BOTTOM = 220, 40, 10, 52


def curve_chart(
    curves: Mapping[str, Curve], *, x: str, y: str, label: str, diagonal: bool = False, points: bool = False
) -> Markup:
    """Returns a square chart with one line per curve; up to two have a band of their 95 % intervals.

    Args:
        curves: Name -> curve; both axes range from 0 to 1.
        diagonal: Whether to draw the line from (0, 0) to (1, 1).
    """
    parts = [_axes(x, y)]
    if diagonal:
        parts.append(f'<path d="M{_at(0, 0)}L{_at(1, 1)}" stroke="currentColor" stroke-opacity="0.4"/>')
    for number, (name, curve) in enumerate(curves.items()):
        row, column = divmod(number, 2)
        left, top, color = _LEFT + 100 * column, _TOP + _SIDE + 38 + 16 * row, COLORS[number % len(COLORS)]
        parts += [
            _line(curve, color, points=points, band=len(curves) <= 2),
            key(left, top, color, shortened(name, 15)),
        ]
    rows = (len(curves) + 1) // 2
    return svg(_LEFT + _SIDE + 10, _TOP + _SIDE + _BOTTOM + 16 * (rows - 1), "".join(parts), label)


def _axes(x: str, y: str) -> str:
    lines = "".join(
        f'<path d="M{_at(0, share)}h{_SIDE}M{_at(share, 0)}v-{_SIDE}" stroke="currentColor" stroke-opacity="0.15"/>'
        f'<text x="{_LEFT - 5}" y="{_TOP + _SIDE * (1 - share) + 4:.1f}" text-anchor="end">{share:g}</text>'
        f'<text x="{_LEFT + _SIDE * share:.1f}" y="{_TOP + _SIDE + 13}" text-anchor="middle">{share:g}</text>'
        for share in (0, 0.5, 1)
    )
    middle = _TOP + _SIDE / 2
    return (
        f'{lines}<text x="{_LEFT + _SIDE / 2}" y="{_TOP + _SIDE + 27}" text-anchor="middle">{escape(x)}</text>'
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">{escape(y)}</text>'
    )


def _line(curve: Curve, color: str, *, points: bool, band: bool) -> str:
    known = [p for p in zip(curve.x, curve.y, curve.error, strict=True) if math.isfinite(p[0]) and math.isfinite(p[1])]
    drawn = line([_at(x, y) for x, y, _ in known], color, dots=points)
    if not band:
        return drawn
    half_widths = [0.0 if math.isnan(error) else quantile(0.975) * error for _, _, error in known]
    above = [_at(x, min(y + far, 1.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    below = [_at(x, max(y - far, 0.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    area = f'<polygon fill="{color}" fill-opacity="0.2" points="{" ".join([*above, *below[::-1]])}"/>'
    return area + drawn


def _at(x: float, y: float) -> str:
    return f"{_LEFT + _SIDE * x:.1f},{_TOP + _SIDE * (1 - y):.1f}"
