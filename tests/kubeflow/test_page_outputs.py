"""What Kubeflow's page of a run draws, in the forms that its frontend checks."""

import json
import math
from numbers import Real

import pytest
from google.protobuf import json_format, struct_pb2

from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.measure.score_curves import Curve, Curves
from fullpass.kubeflow.page_outputs import classification_metrics, page_outputs, scalar_metrics

NAN = math.nan
CURVE = Curve((0.0, 0.5, 1.0), (0.2, 0.9, 1.0), (NAN, NAN, NAN))


def matrix(count: int) -> ClassResults:
    """2 rows of b predicted as a, and so on: the number of a cell is 10 * label + prediction."""
    names = "ba"[:count] + "cdefghijklmnopqrstuvwx"[: max(count - 2, 0)]
    cells = tuple(Cell(a, b, 10.0 * i + j, NAN, NAN) for i, a in enumerate(names) for j, b in enumerate(names))
    return ClassResults(tuple(OfClass(name, 1.0, {}) for name in names), count, cells)


def stored(metadata: dict) -> dict:
    """Returns metadata as the launcher stores it (v2/metadata/converter.go, StructValueToMLMDValue at 2.17.0)."""
    parsed = json_format.Parse(json.dumps(metadata, allow_nan=False), struct_pb2.Struct())
    wrap = {"list_value": "list", "struct_value": "struct"}
    values = {name: value for name, value in parsed.fields.items()}
    return {
        name: {wrap[kind]: json_format.MessageToDict(value)} if (kind := value.WhichOneof("kind")) in wrap
        else json_format.MessageToDict(value)
        for name, value in values.items()
    }  # fmt: skip


def test_curve_and_matrix_have_the_form_that_the_frontend_checks():
    """ROCCurveHelper.tsx, validateConfidenceMetrics; MetricsVisualizations.tsx, validateConfusionMatrix at 2.17.0."""
    curves = Curves(CURVE, CURVE, CURVE, (1.0, 0.6, 0.0))
    found = stored(classification_metrics([curves, None], [matrix(2), None]))
    points = found["confidenceMetrics"]["list"]
    assert points[1] == {"confidenceThreshold": 0.6, "falsePositiveRate": 0.5, "recall": 0.9} and len(points) == 3
    assert all(isinstance(value, Real) for point in points for value in point.values())
    drawn = found["confusionMatrix"]["struct"]
    assert drawn["annotationSpecs"] == [{"displayName": "a"}, {"displayName": "b"}]
    # Label and prediction: b is 0 and a is 1, so a predicted as b is 10.
    assert drawn["rows"] == [{"row": [11, 10]}, {"row": [1, 0]}]


@pytest.mark.parametrize(
    ("curves", "classes"),
    [([], []), ([None], [None]), ([None], [ClassResults((), 3, matrix(2).cells)])],
)
def test_what_an_evaluation_lacks_is_left_out(curves, classes):
    assert classification_metrics(curves, classes) == {}


def test_metrics_are_those_of_all_rows_and_of_the_newest_span():
    rows = [
        MeasuredRows((), {"auc": 0.75, "example_count": 40.0, "auc[c]": NAN}, {"auc": 0.1}),
        MeasuredRows((), {"auc": 0.5}, newest=True),
        MeasuredRows((("hour", "7"),), {"auc": 0.25}),
    ]
    assert stored(scalar_metrics(rows)) == {"auc": 0.75, "example_count": 40.0, "auc, newest span": 0.5}


def test_only_classes_have_classification_metrics():
    evaluator = "fullpass.components.evaluation.component.EvaluatorExecutor"
    names = {
        task: [one.name for one in page_outputs(evaluator, task)] for task in ("binary", "multilabel", "regression")
    }
    assert names == {"binary": ["metrics", "classification"], "multilabel": ["metrics"], "regression": ["metrics"]}
    assert page_outputs("x") == ()
