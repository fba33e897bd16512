"""What the nodes of a run recorded, as pandas DataFrames. Whatever metric or value they record is a row or a column.

Each function takes the folder of an artifact; without the folder or the file, its table is empty.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fullpass.base.files import read_bytes
from fullpass.components.evaluation.confidence import half_width
from fullpass.components.evaluation.measure import class_results, measured_metrics, score_curves
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.shown.shown_files import read_regression_errors
from fullpass.components.pages.vega import Chart
from fullpass.components.report.classes import classes_section, curve_charts
from fullpass.components.report.regression import errors_section
from fullpass.components.report.training import training_charts
from fullpass.trainer.export.run_provenance import TRAINING_FILE
from fullpass.trainer.insight import leaderboard as board

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = ("value", "low", "high", "last_blessed")
_CURVES = ("roc", "precision_recall", "calibration")
_NAN = float("nan")


def metrics(evaluation: str | None, values: Mapping[str, float]) -> "pd.DataFrame":
    """Returns the metrics of all rows by name: `values`, with the intervals that the evaluation recorded."""
    whole = [rows for rows in _measured(evaluation) if not rows.keys and not rows.newest]
    rows = whole[0] if whole else MeasuredRows((), values)
    return _frame([(key, *_with_interval(rows, key, value)) for key, value in values.items()], ("metric", *_MEASURED))


def slices(evaluation: str | None) -> "pd.DataFrame":
    """Returns one row per slice and metric: the slice, its newest span alone or all rows, its number of rows."""
    rows = [
        (", ".join(f"{column} {value}" for column, value in one.keys), one.newest, one.examples, name)
        + _with_interval(one, name, value)
        for one in _measured(evaluation)
        if one.keys
        for name, value in one.values.items()
        if name != measured_metrics.ALWAYS_MEASURED
    ]
    return _frame(rows, ("slice", "newest_span", "examples", "metric", *_MEASURED), index=False)


def history(model_run: str | None) -> "pd.DataFrame":
    """Returns the values of each epoch; a value that is not recorded in an epoch is NaN."""
    import pandas as pd

    recorded: Mapping[str, Sequence[float | None]] = _training(model_run).get("history", {})
    found = pd.DataFrame({name: pd.Series(values, dtype="float64") for name, values in recorded.items()})
    return found.set_axis(pd.RangeIndex(1, len(found) + 1, name="epoch"))


def importance(model_run: str | None) -> "pd.DataFrame":
    """Returns the importance of each feature with its interval, the largest first."""
    columns = ("feature", "importance", "reach")
    rows = [[one[name] for name in columns] for one in _training(model_run).get("importance", ())]
    found = _frame(rows, columns).astype("float64")  # a value that is undefined is null in the file
    reach = found.pop("reach")
    return found.assign(low=found["importance"] - reach, high=found["importance"] + reach)


def leaderboard(facts: Mapping[str, Any]) -> "pd.DataFrame":
    """Returns what a run tried, by the facts of the run."""
    rows = board.leaderboard(facts.get("training") or {}, facts.get("trials") or ())
    return _frame([[row.get(name) for name in board.columns(rows)] for row in rows], board.columns(rows))


def confusion(evaluation: str | None) -> "pd.DataFrame":
    """Returns the weights of the rows by actual and predicted class; of many classes, the most confused pairs."""
    import pandas as pd

    results = next(iter(class_results.read_class_results(evaluation)), None) if evaluation else None
    if results is None or not results.cells:
        return pd.DataFrame()
    cells = [(cell.label, cell.predicted, cell.weight) for cell in results.cells]
    table = pd.DataFrame(cells, columns=["actual", "predicted", "weight"])
    found = table.pivot(index="actual", columns="predicted", values="weight")
    return found.loc[table["actual"].unique(), table["predicted"].unique()]


def curves(evaluation: str | None) -> "pd.DataFrame":
    """Returns the points of the curves of the new model."""
    of_model = next(iter(score_curves.read_curves(evaluation)), None) if evaluation else None
    drawn = {name: asdict(getattr(of_model, name)) for name in _CURVES} if of_model else {}
    rows = [
        (name, x, y, *_interval(y, error))
        for name, curve in drawn.items()
        for x, y, error in zip(curve["x"], curve["y"], curve["error"], strict=True)
    ]
    return _frame(rows, ("curve", "x", "y", "low", "high"), index=False)


def charts(evaluation: str | None, model_run: str | None) -> dict[str, Chart]:
    """Returns the charts of training and evaluation by their labels."""
    training = _training(model_run)
    found = list(training_charts(training)) if training else []
    if evaluation:
        classes = class_results.read_class_results(evaluation)
        of_classes, errors = classes_section(classes, 0), errors_section(read_regression_errors(evaluation))
        found += curve_charts(score_curves.read_curves(evaluation), classes=classes)
        found += (*of_classes.matrices, *of_classes.charts) if of_classes else ()
        found += errors.charts if errors else ()
    return {one.spec["description"]: one for one in found if isinstance(one, Chart)}


def _frame(rows: Iterable[Sequence[Any]], columns: Sequence[str], *, index: bool = True) -> "pd.DataFrame":
    """Returns rows as a table, whose first column is the index unless told otherwise."""
    import pandas as pd

    found = pd.DataFrame(rows, columns=list(columns))
    return found.set_index(columns[0]) if index else found


def _with_interval(rows: MeasuredRows, name: str, value: float) -> tuple[float, ...]:
    low, high = _interval(value, rows.errors.get(name, _NAN))
    return value, low, high, rows.baseline.get(name, _NAN)


def _interval(value: float, error: float) -> tuple[float, float]:
    """Returns the 95 % interval around a value; NaN where the standard error is unknown."""
    reach = half_width(error)
    return value - reach, value + reach


def _measured(evaluation: str | None) -> Sequence[MeasuredRows]:
    present = evaluation is not None and read_bytes(f"{evaluation}/{measured_metrics.FILE}") is not None
    return measured_metrics.read_measured(evaluation) if present and evaluation else ()


def _training(model_run: str | None) -> Mapping[str, Any]:
    content = read_bytes(f"{model_run}/{TRAINING_FILE}") if model_run else None
    return json.loads(content) if content else {}
