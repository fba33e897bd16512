"""What Fullpass uses of TensorFlow Data Validation beyond its documented interface.

`tests/components/internals/test_tfdv_internals.py` fails first if another version differs.

* `BasicStatsGenerator`, `TopKUniquesSketchStatsGenerator`, `extract_statistics_output`: TFDV's accumulators over
  batches of thousands of rows. Its public interface needs a Beam element per row, which takes most of the time.
* `make_histograms_of_tuples`: A histogram of a column is made of a thousand buckets, whose bounds TFDV reads one by one
  from a protocol buffer, 7 ms per column and split. From tuples it takes a third.

Their code differs between TFDV 1.16 and 1.17; their interface does not. Nothing here is known to become public.
"""

from types import FunctionType
from typing import NamedTuple

import numpy as np
from tensorflow_data_validation.statistics.generators.basic_stats_generator import BasicStatsGenerator
from tensorflow_data_validation.statistics.generators.top_k_uniques_sketch_stats_generator import (
    TopKUniquesSketchStatsGenerator,
)
from tensorflow_data_validation.statistics.stats_impl import extract_statistics_output
from tensorflow_data_validation.utils import quantiles_util

__all__ = [
    "BasicStatsGenerator",
    "TopKUniquesSketchStatsGenerator",
    "extract_statistics_output",
    "make_histograms_of_tuples",
]


class _Bucket(NamedTuple):
    low_value: float
    high_value: float
    sample_count: float


class _Histogram(NamedTuple):
    buckets: list[_Bucket]


def _histogram_of_tuples(quantiles: np.ndarray, counts: np.ndarray) -> _Histogram:
    bounds_and_counts = quantiles_util._get_bin_weights(quantiles, counts)
    return _Histogram([_Bucket(*one) for one in zip(*(a.tolist() for a in bounds_and_counts), strict=True)])


def make_histograms_of_tuples() -> None:
    """Makes TFDV's own function of equally wide buckets read tuples; the result is equal."""
    of_messages = quantiles_util.generate_equi_width_histogram
    names = {**of_messages.__globals__, "generate_quantiles_histogram": _histogram_of_tuples}
    quantiles_util.generate_equi_width_histogram = FunctionType(of_messages.__code__, names)
