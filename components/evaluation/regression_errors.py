"""Labels and predictions of a regression on the sample of an evaluation's rows."""

import numpy as np

from fullpass.components.evaluation.scored_rows import Scored
from fullpass.components.evaluation.shown_files import Decile, RegressionErrors

_POINTS, _PARTS = 500, 10


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
