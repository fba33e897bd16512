"""The times that the labels of a forecast are of."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY, compile_format
from fullpass.preprocessing.dates.date_ops import parse_dates
from fullpass.trainer.input.raw_examples import dense_columns


def forecast_times(records: Sequence[bytes], config: PreprocessingConfig) -> np.ndarray | None:
    """Returns the time of each row's label in days since 1970, float64 [rows], NaN where it is no date.

    It is None if the label is no forecast, or if the records lack the date, because nothing else reads it.

    Args:
        records: Serialized raw examples.
    """
    shifted = config.label.shifted
    column = raw_columns(config).get(shifted.at) if shifted else None
    if shifted is None or column is None or column.type != "string":
        return None
    [values] = dense_columns(tf.constant(list(records)), {shifted.at: column}).values()
    read = parse_dates(values, compile_format(shifted.format))
    microseconds = read.days * MICROSECONDS_PER_DAY + read.microseconds - read.offset + shifted.columns[shifted.label]
    return np.where(read.valid.numpy(), microseconds.numpy() / MICROSECONDS_PER_DAY, np.nan)
