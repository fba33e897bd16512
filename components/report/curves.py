"""The curves of the report, as inline SVG: ROC, precision-recall, calibration; and the confusion matrix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.score_curves import Curve, Curves
from fullpass.components.pages.charts import COLORS, key, line, svg

_MODELS = ("new model", "last blessed")


@dataclass(frozen=True)
class ShownCurves:
    """The charts of the models' curves, and their confusion matrices.

    Attributes:
        confusion: Name and confusion matrix of each model. The matrix is ((true positives, false positives), (false
            negatives, true negatives)), as text.
    """

    charts: tuple[Markup, ...]
    confusion: tuple[tuple[str, tuple[tuple[str, str], tuple[str, str]]], ...]


def curves_section(curves: Sequence[Curves | None], rows: int) -> ShownCurves | None:
    """Returns the section; None if no model has curves.

    Args:
        rows: Number of rows; if the rows have other weights than 1, the confusion matrix has shares only.
    """
    of_models = {name: one for name, one in zip(_MODELS, curves, strict=False) if one is not None}
    if not of_models:
        return None
    roc, precision, calibration = (
        {name: getattr(one, field) for name, one in of_models.items()}
        for field in ("roc", "precision_recall", "calibration")
    )
    charts = (
        curve_chart(roc, x="false positive rate", y="true positive rate", label="ROC curve", diagonal=True),
        curve_chart(precision, x="recall", y="precision", label="precision-recall curve"),
        curve_chart(
            calibration, x="mean score", y="share positive", label="calibration curve", diagonal=True, points=True
        ),
    )
    return ShownCurves(charts, tuple((name, _matrix(one, rows)) for name, one in of_models.items()))


def _matrix(curves: Curves, rows: int) -> tuple[tuple[str, str], tuple[str, str]]:
    total = sum(curves.confusion)
    true, false, missed, rest = (
        f"{count:,.0f} ({_percent(count / total, error)})" if total == rows else _percent(count / total, error)
        for count, error in zip(curves.confusion, curves.confusion_errors, strict=True)
    )
    return (true, false), (missed, rest)


def _percent(share: float, error: float) -> str:
    return f"{share:.1%}" + ("" if math.isnan(error) else f" ± {quantile(0.975) * error:.1%}")


_SIDE, _LEFT, _TOP, _BOTTOM = 220, 40, 10, 52


def curve_chart(
    curves: Mapping[str, Curve], *, x: str, y: str, label: str, diagonal: bool = False, points: bool = False
) -> Markup:
    """Returns a square chart with one line per curve, each with its 95 % interval.

    Args:
        curves: Name -> curve; both axes range from 0 to 1.
        diagonal: Whether to draw the line from (0, 0) to (1, 1).
    """
    parts = [_axes(x, y)]
    if diagonal:
        parts.append(f'<path d="M{_at(0, 0)}L{_at(1, 1)}" stroke="currentColor" stroke-opacity="0.4"/>')
    for number, (name, curve) in enumerate(curves.items()):
        left, top = _LEFT + 100 * number, _TOP + _SIDE + 38
        parts += [_line(curve, COLORS[number], points=points), key(left, top, COLORS[number], name)]
    return svg(_LEFT + _SIDE + 10, _TOP + _SIDE + _BOTTOM, "".join(parts), label)


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


def _line(curve: Curve, color: str, *, points: bool) -> str:
    known = [p for p in zip(curve.x, curve.y, curve.error, strict=True) if math.isfinite(p[0]) and math.isfinite(p[1])]
    half_widths = [0.0 if math.isnan(error) else quantile(0.975) * error for _, _, error in known]
    above = [_at(x, min(y + far, 1.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    below = [_at(x, max(y - far, 0.0)) for (x, y, _), far in zip(known, half_widths, strict=True)]
    band = f'<polygon fill="{color}" fill-opacity="0.2" points="{" ".join([*above, *below[::-1]])}"/>'
    return band + line([_at(x, y) for x, y, _ in known], color, dots=points)


def _at(x: float, y: float) -> str:
    return f"{_LEFT + _SIDE * x:.1f},{_TOP + _SIDE * (1 - y):.1f}"
