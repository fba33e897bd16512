"""Converts between value counts of columns and the arrays that expressions are evaluated on."""

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_column
from fullpass.pipeline.authoring.profile.number_profile import profile_numbers
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts, count_values


def array_of(values: ValueCounts, type: str) -> np.ndarray:
    """Returns a column as an input of `evaluate`, [rows]: float32 for a number or boolean, objects for a string.

    Args:
        values: the column.
        type: number, boolean or string.
    """
    if type != "string":
        return values.row_numbers.astype(np.float32)
    return np.array([*values.texts, None], dtype=object)[values.codes]


def values_of_array(result: np.ndarray) -> ValueCounts:
    """Returns the value counts of a derived column, a result of `evaluate`."""
    if result.dtype == object:
        return count_values(pa.array(result.tolist(), pa.string()))
    texts = [None if np.isnan(value) else f"{value:.9g}" for value in result.tolist()]
    return count_values(pa.array(texts, pa.string()))


def derived_column(name: str, result: np.ndarray) -> ColumnProfile:
    """Returns the profile of a derived column.

    Args:
        name: the name of the column.
        result: the result of `evaluate`.
    """
    values = values_of_array(result)
    column = profile_column(name, values)
    if result.dtype == object or column.kind in ("boolean", "constant", "empty"):
        return column
    return ColumnProfile(name, "number", "computed", values, profile_numbers(values.row_numbers))
