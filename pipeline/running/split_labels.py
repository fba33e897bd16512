"""Reads from the statistics of a run which splits have other labels than all rows."""

from collections.abc import Sequence

from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.base.files import read_bytes
from fullpass.components.ingest.splitting.label_balance import Imbalance, uneven_means, uneven_shares


def uneven_labels(statistics: str, label: str, splits: Sequence[str]) -> tuple[Imbalance, ...]:
    """Returns the splits whose label is distributed otherwise than in all rows; none for a derived label.

    Args:
        statistics: the folder of the statistics, with a folder per split.
        label: the label's column.
        splits: the names of the splits.
    """
    shares: dict[str, dict[str, float]] = {}
    moments: dict[str, tuple[float, float, float]] = {}
    for split in splits:
        content = read_bytes(f"{statistics}/Split-{split}/FeatureStats.pb") or b""
        datasets = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
        feature = next((f for data in datasets for f in data.features if list(f.path.step) == [label]), None)
        if feature is not None and feature.WhichOneof("stats") == "num_stats":
            stats = feature.num_stats
            moments[split] = (stats.common_stats.num_non_missing, stats.mean, stats.std_dev)
        elif feature is not None:
            shares[split] = {b.label: b.sample_count for b in feature.string_stats.rank_histogram.buckets}
    return (*uneven_shares(shares), *uneven_means(label, moments))
