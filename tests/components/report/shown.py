"""What reports of the tests show: curves, classes, partial dependence, and a name with markup."""

from fullpass.components.evaluation.measure.class_results import ClassResults, OfClass
from fullpass.components.evaluation.measure.score_curves import Curve, Curves
from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence

HOSTILE = "<script>alert('x')</script>"
DEPENDENCE = Dependence(
    200,
    ("yes", HOSTILE),
    (0.4, 0.6),
    (
        ColumnDependence("fare", "number", ("1", "2", "5"), (1.0, 2.0, 5.0), ((0.2, 0.4, 0.6), (0.8, 0.6, 0.4))),
        ColumnDependence(HOSTILE, "value", (HOSTILE, "b"), (), ((0.0, 1.0), (1.0, 0.0))),
    ),
    {HOSTILE: "text"},
)


def curves(height):
    """Curves of three points; the last has no error."""
    curve = Curve((0.0, 0.5, 1.0), (0.0, height, 1.0), (0.1, 0.02, float("nan")))
    return Curves(curve, curve, curve, curve.x)


def classes(names, cells, weights=(60.0, 40.0)):
    """The classes of a model, each with the same metrics."""
    of = {"precision": (0.75, 0.01), "recall": (float("nan"), float("nan"))}
    return ClassResults(tuple(OfClass(n, w, of) for n, w in zip(names, weights, strict=False)), len(names), cells)
