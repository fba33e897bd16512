"""A metric: any function of labels and predictions, on rows that the model has not seen."""

import numpy as np
import pyarrow as pa


def cost(labels: pa.Array, predicted: pa.Table, *, missed: float = 5.0, asked: float = 1.0) -> float:
    """Returns the mean cost of a row.

    Args:
        labels: `yes` or `no` per row.
        predicted: The table that `Model.predict` returns for the same rows.
        missed: Cost of a passenger with a tip whom nobody asked.
        asked: Cost of a passenger without a tip who was asked.
    """
    tipped = np.asarray(labels.to_pylist()) == "yes"
    chosen = np.asarray(predicted["prediction"].to_pylist()) == "yes"
    return float(np.mean(missed * (tipped & ~chosen) + asked * (~tipped & chosen)))
