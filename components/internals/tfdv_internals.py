"""What Fullpass uses of TensorFlow Data Validation beyond its documented interface.

`tests/components/internals/test_tfdv_internals.py` fails first if another version differs.

* `BasicStatsGenerator`, `TopKUniquesSketchStatsGenerator`, `extract_statistics_output`: TFDV's accumulators over
  batches of thousands of rows. Its public interface needs a Beam element per row, which takes most of the time.

Their code differs between TFDV 1.16 and 1.17; their interface does not. Nothing here is known to become public.
"""

from tensorflow_data_validation.statistics.generators.basic_stats_generator import BasicStatsGenerator
from tensorflow_data_validation.statistics.generators.top_k_uniques_sketch_stats_generator import (
    TopKUniquesSketchStatsGenerator,
)
from tensorflow_data_validation.statistics.stats_impl import extract_statistics_output

__all__ = ["BasicStatsGenerator", "TopKUniquesSketchStatsGenerator", "extract_statistics_output"]
