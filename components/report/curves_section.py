"""The curves of the report, from the evaluation: ROC, precision-recall, calibration, and the confusion matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.score_curves import Curves
from fullpass.components.report.curve_charts import curve_chart

_MODELS = ("new model", "last blessed")


@dataclass(frozen=True)
class ShownCurves:
    """The charts of the models' curves, and their confusion matrices.

    Attributes:
        charts: ROC, precision-recall and calibration.
        confusion: name and confusion matrix of each model. The matrix is ((true positives, false positives), (false
            negatives, true negatives)), as text.
    """

    charts: tuple[Markup, ...]
    confusion: tuple[tuple[str, tuple[tuple[str, str], tuple[str, str]]], ...]


def curves_section(curves: Sequence[Curves | None], rows: int) -> ShownCurves | None:
    """Returns the section; None if no model has curves.

    Args:
        curves: curves of each model, the new model first.
        rows: number of rows; if the rows have other weights than 1, the confusion matrix has shares only.
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
