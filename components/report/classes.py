"""What the report shows of scores and classes: curves, confusion matrices, a table of metrics, one against the rest.

The curves are ROC, precision-recall and calibration, as inline SVG.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.score_curves import Curve, Curves
from fullpass.components.pages.charts import COLORS, Square, figure, legend, short_label, svg, svg_line

MODELS = ("new model", "last blessed")
_LONGEST = 100
"""Characters of the name of a class, which a narrow page breaks into lines."""
_MOST_WITH_INTERVALS = 4
"""A matrix of more classes is too wide with the intervals of its cells; those of recall are in the table below it."""
_AREA, _BOTTOM = Square(side=220, left=40), 35
"""The drawing area of a chart, and the height of the labels below it."""


@dataclass(frozen=True)
class ShownMatrix:
    """The confusion matrix of one model.

    Attributes:
        model: Which model.
        names: The classes of rows and columns; empty if `rows` are pairs.
        rows: A class and its cells per predicted class; or class, predicted class and cell of the most confused pairs.
    """

    model: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ShownClasses:
    """The classes of the models.

    Attributes:
        names: Names of the metrics of a class.
        rows: A class, its share of the rows, and its metrics.
        left_out: Number of classes that `rows` do not show.
        charts: Curves of the classes of one model, or of each class by all models.
    """

    matrices: tuple[ShownMatrix, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    charts: tuple[Markup, ...]


def classes_section(
    results: Sequence[ClassResults | None], rows: int, models: Sequence[str] = MODELS
) -> ShownClasses | None:
    """Returns the section; None if the new model has no classes.

    Args:
        results: Classes of each model, the new model first.
        rows: Number of rows; if the rows have other weights than 1, matrices have shares only.
        models: The names of the models.
    """
    if not results or results[0] is None:
        return None
    new = results[0]
    total = sum(one.weight for one in new.classes)
    return ShownClasses(
        tuple(_matrix(name, one, rows) for name, one in zip(models, results, strict=False) if one and one.cells),
        tuple(new.classes[0].metrics),
        tuple(_class(one, total) for one in new.classes),
        new.count - len(new.classes),
        _charts({name: one for name, one in zip(models, results, strict=False) if one and one.roc}),
    )


def _charts(results: Mapping[str, ClassResults]) -> tuple[Markup, ...]:
    """Returns the curves of all classes of one model together, or a ROC curve per class with all models."""
    if len(results) < 2:
        return tuple(
            chart
            for one in results.values()
            for chart in (
                _roc(one.roc),
                curve_chart(one.precision_recall, x="recall", y="precision", label="precision-recall curves"),
            )
        )
    shared = [name for name in next(iter(results.values())).roc if all(name in one.roc for one in results.values())]
    return tuple(_roc({f"{_name(name)}, {model}": one.roc[name] for model, one in results.items()}) for name in shared)


def _roc(curves: Mapping[str, Curve]) -> Markup:
    return curve_chart(curves, x="false positive rate", y="true positive rate", label="ROC curves", diagonal=True)


def _matrix(model: str, results: ClassResults, rows: int) -> ShownMatrix:
    counted = sum(one.weight for one in results.classes) == rows
    if not results.is_whole:
        pairs = ((_name(cell.label), _name(cell.predicted), _cell(cell, counted=counted)) for cell in results.cells)
        return ShownMatrix(model, (), tuple(pairs))
    of_label: dict[str, list[str]] = {}
    for cell in results.cells:
        shown = cell if results.count <= _MOST_WITH_INTERVALS else replace(cell, error=math.nan)
        of_label.setdefault(cell.label, []).append(_cell(shown, counted=counted))
    names = tuple(map(_name, of_label))
    return ShownMatrix(model, names, tuple((_name(label), *cells) for label, cells in of_label.items()))


def _cell(cell: Cell, *, counted: bool) -> str:
    share = _with_interval(cell.share, cell.error, "{:.1%}")
    if not counted:
        return share
    return f"{cell.weight:,.0f} ({share})" if share else f"{cell.weight:,.0f}"  # a class without rows has no shares


def _class(one: OfClass, total: float) -> tuple[str, ...]:
    values = (_with_interval(*of, "{:.4f}") for of in one.metrics.values())
    return (_name(one.name), f"{one.weight / total:.1%}", *values)


def _with_interval(value: float, error: float, form: str) -> str:
    if math.isnan(value):
        return ""
    return form.format(value) + ("" if math.isnan(error) else f" ± {form.format(half_width(error))}")


def _name(text: str) -> str:
    return short_label(text, _LONGEST)


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
