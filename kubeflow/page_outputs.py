"""Artifacts that nodes have on Kubeflow only: what the page of a run draws.

They are further outputs of nodes, made from files of the node's own outputs after its executor. The page draws metrics,
curves, a confusion matrix, HTML and Markdown, in the forms of Kubeflow's frontend
(frontend/src/components/viewers/MetricsVisualizations.tsx and ROCCurveHelper.tsx at 2.17.0), which draws no
system.SlicedClassificationMetrics. The comparison of runs reads the same artifacts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fullpass.components.artifact_files import PAGE
from fullpass.components.evaluation.measure.class_results import ClassResults, read_class_results
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows, read_measured
from fullpass.components.evaluation.measure.score_curves import Curves, read_curves
from fullpass.kubeflow.protocol import Json

METRICS, CLASSIFICATION = "system.Metrics", "system.ClassificationMetrics"
_CLASS_TASKS = ("binary", "multiclass")


@dataclass(frozen=True)
class PageOutput:
    """One artifact: its name, its type, and the output of the node that it is made from, or the file in it to show."""

    name: str
    kind: str
    source: str
    file: str = ""


_OUTPUTS = {
    "fullpass.components.evaluation.component.EvaluatorExecutor": (
        PageOutput("metrics", METRICS, "evaluation"),
        PageOutput("classification", CLASSIFICATION, "evaluation"),
    ),
    "fullpass.components.data_gate.component.SpanComparisonExecutor": (
        PageOutput("page", "system.HTML", "comparison", PAGE),
    ),
    "fullpass.components.report.component.Report_Executor": (
        PageOutput("page", "system.HTML", "report", PAGE),
        PageOutput("card", "system.Markdown", "report", "model_card.md"),
    ),
}
"""Executor -> outputs. None of the names begins with that of another output: before 2.17, a download of one copies both
(tests/kubeflow/backend/store.py)."""


def page_outputs(executor: str, task: str = "binary") -> tuple[PageOutput, ...]:
    """Returns the page outputs of an executor, for a pipeline whose label has this task."""
    found = _OUTPUTS.get(executor, ())
    return tuple(one for one in found if one.kind != CLASSIFICATION or task in _CLASS_TASKS)


def metadata_of_page(output: PageOutput, folder: str) -> Json:
    """Returns the metadata that the page draws; empty for a file. folder: that of the output's source."""
    if output.kind == METRICS:
        return scalar_metrics(read_measured(folder))
    if output.kind == CLASSIFICATION:
        return classification_metrics(read_curves(folder), read_class_results(folder))
    return {}


def scalar_metrics(measured: Sequence[MeasuredRows]) -> Json:
    """Returns the metrics of the new model over all rows, by name, then over the newest span, as `auc, newest span`."""
    found: Json = {}
    for rows in measured:
        if not rows.keys:
            end = ", newest span" if rows.newest else ""
            found |= {f"{name}{end}": value for name, value in rows.values.items() if math.isfinite(value)}
    return found


def classification_metrics(curves: Sequence[Curves | None], classes: Sequence[ClassResults | None]) -> Json:
    """Returns the ROC curve and the confusion matrix of the new model, as far as the evaluation has them.

    Rows of the matrix are labels, and columns predictions, in the order of the class names.
    """
    found: Json = {}
    if curves and curves[0] is not None:
        points = zip(curves[0].thresholds, curves[0].roc.x, curves[0].roc.y, strict=True)
        found["confidenceMetrics"] = [
            {"confidenceThreshold": threshold, "falsePositiveRate": x, "recall": y}
            for threshold, x, y in points
            if math.isfinite(x) and math.isfinite(y)
        ]
    if classes and classes[0] is not None and classes[0].cells and classes[0].is_whole:
        weights = {(cell.label, cell.predicted): cell.weight for cell in classes[0].cells}
        names = sorted({label for label, _ in weights})
        found["confusionMatrix"] = {
            "annotationSpecs": [{"displayName": name} for name in names],
            "rows": [{"row": [weights[label, predicted] for predicted in names]} for label in names],
        }
    return found
