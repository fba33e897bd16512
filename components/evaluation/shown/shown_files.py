"""What an evaluation shows in the report alone: partial dependence, texts, and the errors of a regression.

Reading the files needs no TensorFlow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fullpass.base.json_text import Number, read_parsed
from fullpass.components.evaluation.measure.scored_rows import Scored

DEPENDENCE_FILE = "partial_dependence.json"
TEXTS_FILE = "shown_texts.json"
ERRORS_FILE = "regression_errors.json"
_POINTS, _PARTS, _TIMES = 500, 10, 100
"""Rows, groups of rows, and most times of the errors of a regression."""


@dataclass(frozen=True)
class ColumnDependence:
    """The partial dependence on one raw column.

    Attributes:
        kind: `number`, `date`, or `value` for categories and booleans.
        values: The values at which the dependence was measured, as text, [points].
        places: Positions on the axis: numbers, or dates in days since 1970, ascending, [points]; empty for categories.
        scores: The mean score of each series at each point, [series][points].
    """

    column: str
    kind: str
    values: tuple[str, ...]
    places: tuple[float, ...]
    scores: tuple[tuple[Number, ...], ...]


@dataclass(frozen=True)
class Dependence:
    """The partial dependence of a model's scores on its most important raw columns.

    Attributes:
        series: Names of the scores: the positive class, some classes, or `prediction`.
        means: The mean score of each series over the unchanged rows, [series].
        columns: The columns, the most important first.
        left_out: Important columns without a curve -> the reason.
    """

    rows: int
    series: tuple[str, ...]
    means: tuple[Number, ...]
    columns: tuple[ColumnDependence, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class ShownText:
    """The texts of a row of the eval split. texts: the text of each text feature, cut if it is long."""

    texts: Mapping[str, str]
    label: str
    prediction: str
    probability: float

    @property
    def right(self) -> bool:
        """Whether the prediction is right."""
        return self.label == self.prediction


def read_dependence(folder: str) -> Dependence | None:
    """Returns the partial dependence of an evaluation; None for a model without importances."""
    return read_parsed(Dependence, f"{folder}/{DEPENDENCE_FILE}")


def read_texts(folder: str) -> tuple[ShownText, ...]:
    """Returns the texts of an evaluation; empty for a model without texts."""
    return read_parsed(tuple[ShownText, ...], f"{folder}/{TEXTS_FILE}") or ()


@dataclass(frozen=True)
class Decile:
    """A tenth of the rows, by prediction.

    Attributes:
        prediction: Their mean prediction.
        residual: Their mean label minus prediction.
        error: The standard error of `residual`; NaN if it is unknown.
    """

    prediction: Number
    residual: Number
    error: Number


@dataclass(frozen=True)
class AtTime:
    """The rows of a time, or of several that follow each other. time: their mean, in days since 1970.

    Attributes:
        label, prediction: Their means.
    """

    time: float
    rows: int
    label: Number
    prediction: Number


@dataclass(frozen=True)
class RegressionErrors:
    """The labels and predictions of a regression on a sample of rows.

    Attributes:
        rows: The number of rows.
        labels, predictions: Those of up to 500 rows.
        deciles: Tenths of all rows of the sample, ascending.
        times: Of a forecast, the rows of the sample by the time of their label, ascending.
    """

    rows: int
    labels: tuple[Number, ...]
    predictions: tuple[Number, ...]
    deciles: tuple[Decile, ...]
    times: tuple[AtTime, ...] = ()

    @property
    def bias(self) -> float:
        """The mean label minus prediction if it has the same sign in each tenth, so that it is no chance; else 0."""
        residuals = [one.residual for one in self.deciles]
        same = len(residuals) == _PARTS and (min(residuals) > 0 or max(residuals) < 0)
        return sum(residuals) / len(residuals) if same else 0.0


def read_regression_errors(evaluation_uri: str) -> RegressionErrors | None:
    """Returns the errors; None if the task is no regression."""
    return read_parsed(RegressionErrors, f"{evaluation_uri}/{ERRORS_FILE}")


def regression_errors(scored: Scored, times: np.ndarray | None = None) -> RegressionErrors | None:
    """Returns the errors of rows in the order of the sample, whose first rows are a sample too; None without rows.

    Args:
        times: Of a forecast, the time of each label in days since 1970, float64 [rows], NaN where unknown.
    """
    known = (scored.weights > 0) & np.isfinite(scored.labels) & np.isfinite(scored.scores)
    rows = scored.chosen(known)
    if not len(rows.labels):
        return None
    parts = np.array_split(np.argsort(rows.scores, kind="stable"), min(_PARTS, len(rows.labels)))
    return RegressionErrors(
        len(rows.labels),
        tuple(rows.labels[:_POINTS].tolist()),
        tuple(rows.scores[:_POINTS].tolist()),
        tuple(_decile(rows.chosen(part)) for part in parts),
        () if times is None else tuple(_at_times(rows, times[known])),
    )


def _at_times(rows: Scored, times: np.ndarray) -> Iterator[AtTime]:
    """Yields the rows of each time; of many times, those of as many adjacent ones as leave a hundred groups."""
    distinct, place = np.unique(times[np.isfinite(times)], return_inverse=True)
    of_known = rows.chosen(np.isfinite(times))
    groups = place // max(1, -(-len(distinct) // _TIMES))
    for group in range(groups.max(initial=-1) + 1):
        some = of_known.chosen(groups == group)
        label, prediction = (float(np.average(of, weights=some.weights)) for of in (some.labels, some.scores))
        yield AtTime(float(distinct[place[groups == group]].mean()), len(some.labels), label, prediction)


def _decile(rows: Scored) -> Decile:
    residuals, shares = rows.labels - rows.scores, rows.weights / rows.weights.sum()
    mean = float(shares @ residuals)
    count = len(residuals)
    error = np.sqrt(count / (count - 1) * (shares**2 @ (residuals - mean) ** 2)) if count > 1 else np.nan
    return Decile(float(shares @ rows.scores), mean, float(error))
