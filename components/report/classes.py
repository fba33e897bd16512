"""What the report shows of classes: confusion matrices, a table of metrics, and curves one against the rest."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from fullpass.components.evaluation.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.score_curves import Curve
from fullpass.components.pages.charts import short_label
from fullpass.components.report.curves import MODELS, curve_chart

_LONGEST = 100
_MOST_WITH_INTERVALS = 4
"""A matrix of more classes is too wide with the intervals of its cells; those of recall are in the table below it."""


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
