import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.pipeline.running.run_summary import uneven_labels


def write(folder, split, feature):
    statistics = statistics_pb2.DatasetFeatureStatisticsList()
    statistics.datasets.add().features.append(feature)
    (folder / f"Split-{split}").mkdir()
    (folder / f"Split-{split}" / "FeatureStats.pb").write_bytes(statistics.SerializeToString())


def texts(**counts):
    feature = statistics_pb2.FeatureNameStatistics(path={"step": ["y"]})
    for name, rows in counts.items():
        feature.string_stats.rank_histogram.buckets.add(label=name, sample_count=rows)
    return feature


def numbers(rows, mean):
    feature = statistics_pb2.FeatureNameStatistics(path={"step": ["y"]})
    feature.num_stats.mean, feature.num_stats.std_dev = mean, (mean * (1 - mean)) ** 0.5
    feature.num_stats.common_stats.num_non_missing = rows
    return feature


@pytest.mark.parametrize(
    ("train", "evaluated", "words"),
    [
        (texts(no=36_000, yes=630), texts(no=7_700, yes=354), ["label yes is 4.4% in split eval and 2.2% in all rows"]),
        (numbers(40_000, 0.02), numbers(10_000, 0.05), ["the mean of y is 0.05 in split eval and 0.026 in all rows"]),
        (texts(no=80, yes=20), texts(no=15, yes=5), []),
    ],
)
def test_labels_of_the_splits_of_a_run(tmp_path, train, evaluated, words):
    write(tmp_path, "train", train)
    write(tmp_path, "eval", evaluated)
    found = uneven_labels(str(tmp_path), "y", ("train", "eval"))
    assert [imbalance.words for imbalance in found] == [f"{text}, beyond chance" for text in words]
    assert uneven_labels(str(tmp_path), "derived", ("train", "eval")) == ()
