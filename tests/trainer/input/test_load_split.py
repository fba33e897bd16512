"""The counts of one pass over a split, and the errors it raises."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, load_split
from tests.record_files import example, write_records


def write_split(folder, rows: list[dict]) -> tuple[list[str], object]:
    """Writes rows of {x, label, weight} as examples; returns the file and its decoder."""
    values = ({name: np.asarray(value, np.float32) for name, value in row.items()} for row in rows)
    path = write_records(folder / "rows", map(example, values))
    shape = np.shape(rows[0]["label"]) if rows else ()
    spec = {name: tf.io.FixedLenFeature([], tf.float32) for name in ("x", "example_weight")}
    spec["label"] = tf.io.FixedLenFeature(shape, tf.float32)
    return [path], lambda serialized: tf.io.parse_example(serialized, spec)


def load(folder, labels, weights=None, x=None, task="binary", classes=2, memory_limit=10**9):
    weights = [1.0] * len(labels) if weights is None else weights
    x = [0.0] * len(labels) if x is None else x
    rows = [{"x": a, "label": b, "example_weight": c} for a, b, c in zip(x, labels, weights, strict=True)]
    files, decode = write_split(folder, rows)
    spec = RowSpec(decode, lambda block: block, task, classes)
    return load_split("train", tuple(files), spec, ReadingPlan(memory_limit=memory_limit))


def test_classes_are_counted_by_rows_and_by_weight(tmp_path):
    counts = load(tmp_path, [0, 1, 1, 1], [1.0, 2.0, 0.5, 0.0]).counts
    assert (counts.rows, counts.weightless, counts.weighted_rows) == (4, 1, 3)
    assert counts.class_rows.tolist() == [1, 2]
    assert counts.class_weight.tolist() == [1.0, 2.5]


def test_labels_of_a_multilabel_task_are_counted_each(tmp_path):
    counts = load(tmp_path, [[1, 0], [1, 1], [0, 0]], [1.0, 3.0, 1.0], task="multilabel").counts
    assert counts.class_rows.tolist() == [2, 1]
    assert counts.class_weight.tolist() == [4.0, 3.0]


def test_the_mean_and_deviation_of_a_regression_are_weighted(tmp_path):
    counts = load(tmp_path, [1.0, 5.0, 1e9], [3.0, 1.0, 0.0], task="regression", classes=0).counts
    assert counts.label_mean == pytest.approx(2.0)
    assert counts.label_deviation == pytest.approx(np.sqrt((3 * 1 + 9) / 4))


@pytest.mark.integration
def test_counts_add_up_over_blocks(tmp_path):
    labels = [i % 3 == 0 for i in range(20_000)]
    counts = load(tmp_path, labels).counts
    assert (counts.rows, counts.class_rows.tolist()) == (20_000, [13_333, 6667])


@pytest.mark.integration
@pytest.mark.parametrize("limit", [0, 10**9])
def test_a_split_beyond_the_memory_limit_is_streamed_with_the_same_batches(tmp_path, limit):
    split = load(tmp_path, [0, 1] * 50, x=list(range(100)), weights=[1, 1, 0, 1] * 25, memory_limit=limit)
    assert (split.in_memory is None) == (limit == 0)
    batches = split.batches(BatchOrder(batch_size=7, shuffle=50, seed=1)).take(-(-split.counts.weighted_rows // 7))
    seen = np.concatenate([features["x"] for features, _, _ in batches])
    assert sorted(seen) == [x for x in range(100) if x % 4 != 2]
    assert split.counts.weighted_rows == 75


def test_an_empty_split_is_refused(tmp_path):
    with pytest.raises(UserError, match="split 'train' is empty"):
        load(tmp_path, [])


def test_a_split_without_any_weight_is_refused(tmp_path):
    with pytest.raises(UserError, match="all 3 rows of split 'train' have weight 0"):
        load(tmp_path, [0, 1, 1], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_named(tmp_path, value):
    with pytest.raises(UserError, match="split 'train' contains NaN or infinity.*x in 2 rows"):
        load(tmp_path, [0, 1, 1, 0], x=[1.0, value, value, 0.0])


def test_what_a_row_of_weight_0_holds_does_not_matter(tmp_path):
    split = load(tmp_path, [0, 1, np.nan], [1.0, 1.0, 0.0], x=[1.0, 2.0, np.nan])
    assert split.counts.not_finite == {}
