"""What `tfdv_internals` promises of TFDV: another version that differs fails here first, with a name."""

import pyarrow as pa

from fullpass.components.internals.tfdv_internals import (
    BasicStatsGenerator,
    TopKUniquesSketchStatsGenerator,
    extract_statistics_output,
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
