import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from fullpass.components.statistics.split_labels import read_split_labels
from fullpass.preprocessing.features.label import Label

KINDS, NUMBER = Label(name="y", task="multiclass"), Label(name="y", task="regression")
TRUTH = Label(name="y", task="binary")
LABELS = Label(name="y", task="multilabel", separator="|", classes=("a", "b"))


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
    ("train", "evaluated", "words", "label"),
    [
        (texts(no=36_000, yes=630), texts(no=7_700, yes=354),
         ["label yes is 4.4% in split eval and 2.2% in all rows"], KINDS),
        (numbers(40_000, 0.02), numbers(10_000, 0.05),
         ["the mean of y is 0.05 in split eval and 0.026 in all rows"], NUMBER),
        (texts(no=80, yes=20), texts(no=15, yes=5), [], KINDS),
        # One class in two spellings: half of the rows are true in both splits.
        (texts(**{"0": 100, "1": 100}), texts(true=50, false=50), [], TRUTH),
        (texts(**{"0": 100, "1": 100}), texts(true=90, false=10, maybe=100),
         ["label 1 is 90.0% in split eval and 63.3% in all rows"], TRUTH),
        # a is in 2 of 3 rows of both splits, alone or not; z is no class of the label.
        (texts(**{"a|b": 60, "a": 60, "|": 60}), texts(**{"a | b": 60, "a|z": 60, "|": 60, "z": 60}), [], LABELS),
        (texts(**{"a|b": 60, "a": 60, "|": 60}), texts(**{"b|a": 120, "b": 60}),
         ["label b is 100.0% in split eval and 66.7% in all rows"], LABELS),
    ],
)  # fmt: skip
def test_labels_of_the_splits_of_a_run(tmp_path, train, evaluated, words, label):
    write(tmp_path, "train", train)
    write(tmp_path, "eval", evaluated)
    found = read_split_labels(str(tmp_path), label, ("train", "eval"))
    assert [imbalance.words for imbalance in found.uneven] == [f"{text}, beyond chance" for text in words]
    derived = read_split_labels(str(tmp_path), Label(name="derived", task="binary"), ("train", "eval"))
    assert derived.uneven == derived.new == ()


@pytest.mark.parametrize(
    ("train", "evaluated", "label", "words"),
    [
        # Of 80 labelled rows, 8 have a class that train never has: right in 72 * 0.5 of 80 rows.
        (texts(no=50, yes=40), texts(no=40, yes=32, maybe=6, never=2), KINDS,
         "10.0% of the labels of split eval never occur in train (maybe, never): no metric counts them; with "
         "these as wrong, multiclass_accuracy is 0.4500"),
        (texts(no=50, yes=40), texts(no=50, yes=40), KINDS, ""),
        (texts(no=50, yes=40), texts(no=50, yes=40, maybe=10, other=9),
         KINDS.model_copy(update={"classes": ("no", "yes", "maybe")}),
         "10.0% of the labels of split eval never occur in train (maybe): metrics count them as wrong"),
        (texts(**{"a|b": 9, "c": 1}), texts(**{"a|d": 1, "b": 2, "d": 1}),
         LABELS.model_copy(update={"classes": None}),
         "50.0% of the labels of split eval never occur in train (d): no metric counts them"),
        (texts(no=50, yes=40), texts(no=50, maybe=10), TRUTH, ""),
    ],
)  # fmt: skip
def test_classes_that_train_never_has(tmp_path, train, evaluated, label, words):
    write(tmp_path, "train", train)
    write(tmp_path, "eval", evaluated)
    found = read_split_labels(str(tmp_path), label, ("train", "eval"))
    metrics = {"multiclass_accuracy": 0.5} if label.task == "multiclass" else {}
    assert [new.beside(metrics) for new in found.new] == ([words] if words else [])


def test_statistics_that_do_not_hold_all_classes_of_train_tell_of_no_new_ones(tmp_path):
    train = texts(no=50, yes=40)
    train.string_stats.unique = 3
    write(tmp_path, "train", train)
    write(tmp_path, "eval", texts(no=5, maybe=4))
    assert read_split_labels(str(tmp_path), KINDS, ("train", "eval")).new == ()
