import numpy as np
import pytest

from components.parity.compare import Tolerance, check, compare
from preprocessing.errors import UserError

ROWS = ["a.csv, row 2", "a.csv, row 3", "b.csv, row 2"]


USUAL = Tolerance(rtol=1e-5, atol=1e-5)


def compared(left, right, tolerance=USUAL):
    return compare(
        {"x_xf": np.array(left)}, {"x_xf": np.array(right)}, pair="one = other", row_names=ROWS, tolerance=tolerance
    )[0]


def test_equal_within_tolerance():
    result = compared([1.0, np.nan, 3.0], [1.0, np.nan, 3.0 + 5e-6])
    assert result.mismatches == 0 and result.rows == 3
    assert result.largest == pytest.approx(5e-6, rel=1e-3)


def test_large_scores_may_differ_by_steps_of_float32():
    below = np.nextafter(np.float32(150), np.float32(0))  # 1.5e-5 away, which an absolute 1e-5 refused
    assert compared([below, 1e8, -150.0], [150.0, 1e8 + 900, -150.001]).mismatches == 0


def test_the_relative_part_is_of_the_right_value_and_the_absolute_part_is_for_small_ones():
    only_relative, only_absolute = Tolerance(rtol=0.1, atol=0), Tolerance(rtol=0, atol=0.1)
    assert (
        compared([90.0, 0.0, 90.0], [100.0, 0.0, 81.0], only_relative).mismatches == 1
    )  # 9 of 81 is more than a tenth
    assert compared([0.05, 100.05, 0.2], [0.0, 100.0, 0.0], only_absolute).mismatches == 1
    assert compared([1.0, np.inf, -np.inf], [np.inf, np.inf, np.inf], only_relative).mismatches == 2


def test_a_difference_names_feature_row_and_values():
    result = compared([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    with pytest.raises(UserError) as error:
        check([result])
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
        compare(
            {"x_xf": np.zeros(1)},
            {"x_xf": np.zeros(1), "y_xf": np.zeros(1)},
            pair="",
            row_names=ROWS,
            tolerance=USUAL,
        )
    with pytest.raises(UserError, match="x_xf has 3 rows on one side and 2 on the other"):
        compared([1, 2, 3], [1, 2])
