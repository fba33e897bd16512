import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.parity.compare import (
    ParityComparison,
    Tolerance,
    VarianceAccumulator,
    check_parity,
    compare_rows,
)
from fullpass.components.parity.compare_paths import TrainedRows, example_batches, in_order_of, rows_of_batch
from tests.record_files import example, write_records

ROWS = ["a.csv, row 2", "a.csv, row 3", "b.csv, row 2"]


USUAL = Tolerance(rtol=1e-5, atol=1e-5)
AUTO = Tolerance(rtol=1e-5, atol="auto")


def named_row(row):
    return ROWS[row] if row < len(ROWS) else f"c.csv, row {row - 1}"


def compared(left, right, tolerance=USUAL, **more):
    features = ({"x_xf": np.array(values)} for values in (left, right))
    return compare_rows(*features, pair="one = other", row_name=named_row, tolerance=tolerance, **more)[0]


def test_equal_within_tolerance():
    result = compared([1.0, np.nan, 3.0], [1.0, np.nan, 3.0 + 5e-6])
    assert result.mismatches == 0 and result.rows == 3
    assert result.largest == pytest.approx(5e-6, rel=1e-3)


def test_large_scores_may_differ_by_steps_of_float32():
    below = np.nextafter(np.float32(150), np.float32(0))  # 1.5e-5 away, which an absolute tolerance of 1e-5 rejected
    assert compared([below, 1e8, -150.0], [150.0, 1e8 + 900, -150.001]).mismatches == 0


def test_the_relative_part_is_of_the_right_value_and_the_absolute_part_is_for_small_ones():
    only_relative, only_absolute = Tolerance(rtol=0.1, atol=0), Tolerance(rtol=0, atol=0.1)
    # 9 of 81 is more than a tenth.
    assert compared([90.0, 0.0, 90.0], [100.0, 0.0, 81.0], only_relative).mismatches == 1
    assert compared([0.05, 100.05, 0.2], [0.0, 100.0, 0.0], only_absolute).mismatches == 1
    assert compared([1.0, np.inf, -np.inf], [np.inf, np.inf, np.inf], only_relative).mismatches == 2


def test_scores_may_differ_by_rounding_of_what_the_label_varies_by():
    random = np.random.default_rng(1)
    served = random.normal(190, 180, 5000)
    served[:10] = random.normal(0, 0.1, 10)  # small scores are differences of large terms
    trained = served + random.uniform(-6e-5, 6e-5, 5000)
    assert compared(trained, served).mismatches > 0, "an absolute 1e-5 refused this"
    assert compared(trained, served, AUTO).mismatches == 0
    assert compared(served + 0.03, served, AUTO).mismatches > 4000
    small = served * 1e-6
    assert compared(small + 1e-7, small, AUTO).mismatches > 4000, "an absolute 1e-5 let this pass"


def test_the_deviation_is_that_of_all_batches_so_far_and_of_probabilities_at_least_1():
    values = np.random.default_rng(1).normal(5, 3, 1000)
    spread = VarianceAccumulator()
    for part in np.split(values, [10, 400]):
        spread = spread.plus(part)
    assert spread.deviation == pytest.approx(values.std(), rel=1e-12)
    before = ParityComparison()
    before.add([compared(values, values, AUTO)])

    def mismatches(**more):
        return compared([2e-5, 0.0], [0.0, 0.0], AUTO, **more).mismatches

    assert (mismatches(), mismatches(before=before), mismatches(least_deviation=1.0)) == (1, 0, 1)
    assert mismatches(least_deviation=3.0) == 0


@pytest.mark.parametrize(
    ("left", "right", "again", "cause"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.5], [1.0, 2.5, 3.5], "Not deterministic"),
        ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0], "Order"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0003], [1.0, 2.0, 3.0003], "Rounding: the largest difference is 839 float32"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.5], [1.0, 2.0, 3.5], "This is not rounding"),
        ([1, 2, 3], [1, 2, 4], [1, 2, 4], "The values themselves differ"),
    ],
)
def test_the_cause_is_told_by_evidence(left, right, again, cause):
    wrong = compared(left, right, AUTO, again=lambda: {"x_xf": np.array(again)})
    with pytest.raises(UserError, match=cause):
        check_parity([wrong])


def test_the_rows_of_a_batch_follow_from_their_size():
    small, large = {"x": np.zeros((4, 2))}, {"x": np.zeros((4, 1 << 20))}
    records = tf.constant([b"0123456789"] * 4)
    assert rows_of_batch(records, small) == 16_384
    assert rows_of_batch(records, large) == 7, "64 MiB of 8 MiB and ten bytes each"


def test_a_difference_names_feature_row_and_values():
    result = compared([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    with pytest.raises(UserError) as error:
        check_parity([result])
    assert "x_xf (one = other): 1 of 3 rows differ, by up to 0.5." in str(error.value)
    assert "a.csv, row 3: 2. against 2.5" in str(error.value)


@pytest.mark.parametrize("other", [np.nan, np.inf])
def test_a_value_that_is_no_number_on_one_side_differs(other):
    result = compared([1.0, 2.0, 3.0], [1.0, other, 3.0])
    assert result.mismatches == 1 and result.largest == np.inf


def test_ids_must_be_equal_and_may_be_padded():
    assert compared([[1, 2], [3, 0], [0, 0]], [[1, 2, 0], [3, 0, 0], [0, 0, 0]]).mismatches == 0
    assert compared([[1, 2], [3, 0], [0, 0]], [[1, 2, 0], [3, 0, 7], [0, 0, 0]]).mismatches == 1


def test_text_must_be_equal():
    assert compared([b"a", b"b", b"c"], [b"a", b"B", b"c"]).examples[0].right == "b'B'"


def test_features_and_rows_must_be_on_both_sides():
    with pytest.raises(UserError, match="on one side only: y_xf"):
        one = {"x_xf": np.zeros(1)}
        compare_rows(one, {**one, "y_xf": np.zeros(1)}, pair="", row_name=named_row, tolerance=USUAL)
    with pytest.raises(UserError, match="x_xf has 3 rows on one side and 2 on the other"):
        compared([1, 2, 3], [1, 2])


def test_batches_add_up_to_the_comparison_of_all_rows():
    left, right = np.arange(40.0), np.arange(40.0)
    right[[3, 17, 18, 39]] += [1, 2, 4, 3]
    names = [f"row {i}" for i in range(40)]

    def compared_rows(part):
        name = names[part].__getitem__
        return compare_rows({"x": left[part]}, {"x": right[part]}, pair="a = b", row_name=name, tolerance=USUAL)

    comparison = ParityComparison()
    for first in range(0, 40, 10):
        comparison.add(compared_rows(slice(first, first + 10)))
        assert comparison.is_decided == (first >= 10)
    assert comparison.compared == compared_rows(slice(0, 40))


def blocks_of(files, block_rows):
    """Yields the rows of files in blocks, as the input function decodes them."""
    rows = np.concatenate(files)
    for first in range(0, len(rows), block_rows):
        ids = rows[first : first + block_rows]
        tokens = tf.ragged.constant([[i] * (i % 3) for i in ids], dtype=tf.int64)
        yield {"row_id": tf.constant(ids), "x_xf": tokens}


@pytest.fixture
def raw_files(tmp_path):
    """Raw files with consecutive rows each, one of them empty, and path -> row ids."""
    ids = {"0": range(0, 2500), "1.gz": range(7000, 7003), "2": [], "3": range(3000, 5900), "4": range(6000, 6001)}
    files = {}
    for name, rows in ids.items():
        path = write_records(tmp_path / name, (example({"fullpass_row": row}) for row in rows))
        files[path] = np.array(rows, np.int64)
    return files


def ids_of(records):
    return tf.io.parse_example(records, {"fullpass_row": tf.io.FixedLenFeature([], tf.int64)})["fullpass_row"].numpy()


def test_rows_stream_in_the_order_of_training_and_few_are_held(raw_files):
    trained_order = sorted(raw_files, reverse=True)
    trained = TrainedRows(blocks_of([raw_files[path] for path in trained_order], 700))
    seen, most = [], 0
    for records in example_batches(in_order_of(trained, list(raw_files)), 1024):
        rows = ids_of(records)
        taken = trained.take(rows)
        np.testing.assert_array_equal(taken["row_id"], rows)
        assert [[i for i in row if i] for row in taken["x_xf"].tolist()] == [[i] * (i % 3) for i in rows]
        seen += rows.tolist()
        most = max(most, len(trained.held))
    assert seen == [row for path in trained_order for row in raw_files[path]]
    assert trained.next_row() is None and not trained.held
    assert most == 1, "of 700 rows, the one that the batch ends in"


def test_rows_in_another_order_are_found_as_well(raw_files):
    shuffled = np.random.default_rng(1).permutation(np.concatenate(list(raw_files.values())))
    trained = TrainedRows(blocks_of([shuffled], 700))
    for records in example_batches(raw_files, 1024):
        np.testing.assert_array_equal(trained.take(ids_of(records))["row_id"], ids_of(records))
    assert not trained.held


def test_the_first_rows_and_rows_that_training_lacks(raw_files):
    assert [len(records) for records in example_batches(raw_files, 1024, 2000)] == [1024, 976]
    trained = TrainedRows(blocks_of([np.array([5, 1, 4])], 2))
    assert trained.take(np.array([1, 2, 4, 3]))["row_id"].tolist() == [1, 4]
    assert trained.take(np.array([9]))["row_id"].tolist() == []
    assert trained.take(np.array([5]))["row_id"].tolist() == [5]
