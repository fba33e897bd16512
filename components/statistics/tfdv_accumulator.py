"""Accumulates TFDV's statistics over whole batches, without a Beam element per row.

The accumulators are TFDV's. On batches of thousands of rows their cost is small: reading takes most of the time.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.components.internals.tfdv_internals import (
    BasicStatsGenerator,
    TopKUniquesSketchStatsGenerator,
    extract_statistics_output,
    make_histograms_of_tuples,
)

COUNTED_TOKENS = 16_384
"""Number of distinct tokens of a column up to which their counts and their number are exact.

With more distinct tokens, a count is too low by at most rows / COUNTED_TOKENS, and the number of distinct tokens is an
estimate with a standard error below 1 %.
"""

make_histograms_of_tuples()

States = list[Any]
"""One state per generator of TFDV."""


class StatisticsAccumulator:
    """Accumulates the statistics of RecordBatches whose columns are lists."""

    def __init__(self) -> None:
        usual = tfdv.StatsOptions()
        self._generators = [
            BasicStatsGenerator(
                num_values_histogram_buckets=usual.num_values_histogram_buckets,
                num_histogram_buckets=usual.num_histogram_buckets,
                num_quantiles_histogram_buckets=usual.num_quantiles_histogram_buckets,
                epsilon=usual.epsilon,
            ),
            TopKUniquesSketchStatsGenerator(
                num_top_values=usual.num_top_values,
                num_rank_histogram_buckets=usual.num_rank_histogram_buckets,
                num_misragries_buckets=COUNTED_TOKENS,
                num_kmv_buckets=COUNTED_TOKENS,
            ),
        ]

    def start(self) -> States:
        """Returns the states before the first batch."""
        return [generator.create_accumulator() for generator in self._generators]

    def add(self, states: States, batch: pa.RecordBatch) -> States:
        """Returns the states after a batch."""
        return [g.add_input(state, batch) for g, state in zip(self._generators, states, strict=True)]

    def merge(self, parts: Iterable[States]) -> States:
        """Merges the states of several parts, one part at a time. The states of the parts become invalid."""
        merged = self.start()
        for states in parts:
            merged = [g.merge_accumulators([a, b]) for g, a, b in zip(self._generators, merged, states, strict=True)]
        return merged

    def finish(self, states: States) -> statistics_pb2.DatasetFeatureStatisticsList:
        """Returns the statistics."""
        return extract_statistics_output(states, self._generators)
