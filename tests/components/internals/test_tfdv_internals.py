"""What `tfdv_internals` promises of TFDV: another version that differs fails here first, with a name."""

import importlib.util

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_data_validation.utils import quantiles_util

from fullpass.components.internals.tfdv_internals import (
    BasicStatsGenerator,
    TopKUniquesSketchStatsGenerator,
    extract_statistics_output,
    make_histograms_of_tuples,
)


def test_generators_accumulate_batches_and_merge():
    generators = [
        BasicStatsGenerator(
            num_values_histogram_buckets=10,
            num_histogram_buckets=10,
            num_quantiles_histogram_buckets=10,
            epsilon=0.01,
        ),
        TopKUniquesSketchStatsGenerator(
            num_top_values=2, num_rank_histogram_buckets=10, num_misragries_buckets=64, num_kmv_buckets=64
        ),
    ]
    batch = pa.RecordBatch.from_arrays([pa.array([[b"a"], [b"a"], [b"b"], None])], ["town"])

    def state(generator):
        return generator.add_input(generator.create_accumulator(), batch)

    merged = [g.merge_accumulators([state(g), state(g)]) for g in generators]
    (data,) = extract_statistics_output(merged, generators).datasets
    (town,) = data.features
    assert data.num_examples == 8 and town.string_stats.common_stats.num_missing == 2
    assert [(top.value, top.frequency) for top in town.string_stats.top_values] == [("a", 4), ("b", 2)]
    assert town.string_stats.unique == 2


@pytest.mark.parametrize("infinite", [0, 3])
@pytest.mark.parametrize("distinct", [1, 5, 1000])
def test_a_histogram_of_tuples_is_that_of_tfdv(distinct, infinite, monkeypatch):
    random = np.random.default_rng(distinct)
    quantiles = np.sort(random.choice(random.normal(size=distinct), size=1000))
    finite, counts = quantiles.copy(), np.cumsum(random.random(1000))
    if infinite:
        quantiles[:infinite], quantiles[-infinite:] = -np.inf, np.inf
        finite = quantiles[infinite:-infinite]
    given = (quantiles, counts, finite[0], finite[-1], 10, counts[-1] - counts[-infinite - 1] if infinite else 0)
    of_messages = importlib.util.module_from_spec(quantiles_util.__spec__)  # unchanged, whatever was imported before
    quantiles_util.__spec__.loader.exec_module(of_messages)
    monkeypatch.setattr(quantiles_util, "generate_equi_width_histogram", of_messages.generate_equi_width_histogram)
    make_histograms_of_tuples()
    assert quantiles_util.generate_equi_width_histogram is not of_messages.generate_equi_width_histogram
    assert quantiles_util.generate_equi_width_histogram(*given) == of_messages.generate_equi_width_histogram(*given)
