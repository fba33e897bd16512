"""Labels and predictions of a regression on the sample of an evaluation's rows. No TensorFlow."""

from dataclasses import dataclass

import numpy as np

from fullpass.base.files import read_bytes
from fullpass.base.json_text import Number, parse_json
from fullpass.components.evaluation.scored_rows import Scored

FILE = "regression_errors.json"
_POINTS, _PARTS = 500, 10


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
class RegressionErrors:
    """The labels and predictions of a regression on a sample of rows.

    Attributes:
        rows: The number of rows.
        labels, predictions: Those of up to 500 rows.
        deciles: Tenths of all rows of the sample, ascending.
    """

    rows: int
    labels: tuple[Number, ...]
    predictions: tuple[Number, ...]
    deciles: tuple[Decile, ...]


def read_regression_errors(evaluation_uri: str) -> RegressionErrors | None:
    """Returns the errors; None if the task is no regression, or for an earlier release."""
    content = read_bytes(f"{evaluation_uri}/{FILE}")
    return None if content is None else parse_json(RegressionErrors, content)


def regression_errors(scored: Scored) -> RegressionErrors | None:
    """Returns the errors of rows in the order of the sample, whose first rows are a sample too; None without rows."""
    rows = scored.chosen((scored.weights > 0) & np.isfinite(scored.labels) & np.isfinite(scored.scores))
    if not len(rows.labels):
        return None
    parts = np.array_split(np.argsort(rows.scores, kind="stable"), min(_PARTS, len(rows.labels)))
    return RegressionErrors(
        len(rows.labels),
        tuple(rows.labels[:_POINTS].tolist()),
        tuple(rows.scores[:_POINTS].tolist()),
        tuple(_decile(rows.chosen(part)) for part in parts),
    )


def _decile(rows: Scored) -> Decile:
    residuals, shares = rows.labels - rows.scores, rows.weights / rows.weights.sum()
    mean = float(shares @ residuals)
    count = len(residuals)
    error = np.sqrt(count / (count - 1) * (shares**2 @ (residuals - mean) ** 2)) if count > 1 else np.nan
    return Decile(float(shares @ rows.scores), mean, float(error))
