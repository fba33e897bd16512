import numpy as np
import pytest

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.pipeline.authoring.profile.effects import has_trend, is_better_by_value
from fullpass.pipeline.authoring.profile.number_profile import profile_numbers
from fullpass.pipeline.authoring.profile.strength import (
    Target,
    groups_for_pairs,
    groups_of,
    strength_of,
    strength_of_groups,
    strength_of_pair,
)
from tests.pipeline.authoring.tables import column_of, values_of

ROWS = 4000


def number(name, numbers):
    values = values_of([repr(float(x)) if x == x else None for x in numbers])
    return ColumnProfile(name, "number", "", values, profile_numbers(values.row_numbers))


def test_auc_of_two_groups_by_hand(random):
    """P(positive) is 0.8 in one half and 0.2 in the other, so a random pair is ordered right with 0.8 (ties half)."""
    groups = np.repeat([0, 1], ROWS // 2)
    y = (random.random(ROWS) < np.where(groups == 1, 0.8, 0.2)).astype(float)
    assert strength_of_groups(groups, Target("binary", y)).value == pytest.approx(0.8, abs=0.02)


def test_a_value_of_its_own_in_every_row_says_nothing(random):
    y = random.integers(0, 2, ROWS).astype(float)
    strength = strength_of_groups(np.arange(ROWS), Target("binary", y))
    assert strength.value == pytest.approx(0.5, abs=0.05)
    assert not strength.is_suspect


def test_r2_of_a_straight_line_with_noise(random):
    """y = x + noise of the same variance: x explains half."""
    x = random.normal(size=ROWS)
    target = Target("regression", x + random.normal(size=ROWS))
    assert strength_of(number("x", x), target).value == pytest.approx(0.5, abs=0.05)


def test_one_outlier_does_not_decide_r2(random):
    x = random.normal(size=ROWS)
    y = x.copy()
    y[0] = 1e9
    assert strength_of(number("x", x), Target("regression", y)).is_leak


def test_share_of_errors_mended_of_three_classes(random):
    y = random.integers(0, 3, ROWS).astype(float)
    told = np.where(random.random(ROWS) < 0.5, y, 3)
    strength = strength_of(column_of("c", told), Target("multiclass", y))
    # Half the rows are told, the other half guessed: 1/2 + 1/6 right, against 1/3 for always the same.
    assert strength.value == pytest.approx((2 / 3 - 1 / 3) / (2 / 3), abs=0.05)
    assert strength.shown.endswith(f" (constant {np.unique(y, return_counts=True)[1].max() / ROWS:.2f})")


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_label_under_another_name_is_a_leak(random, task):
    y = random.normal(size=ROWS) if task == "regression" else random.integers(0, 2, ROWS).astype(float)
    assert strength_of(number("copy", y * 10 + 3), Target(task, y)).is_leak


def test_a_value_only_where_the_label_is_positive_is_a_leak(random):
    y = random.integers(0, 2, ROWS).astype(float)
    reason = np.where(y == 1, random.normal(size=ROWS), np.nan)
    assert strength_of(number("cancel_reason", reason), Target("binary", y)).is_leak


def test_two_columns_that_give_the_label_away_together(random):
    tips, fare = random.exponential(2, ROWS), random.exponential(10, ROWS)
    target = Target("binary", (tips > 0.2 * fare).astype(float))
    assert not strength_of(number("tips", tips), target).is_leak
    groups = [groups_for_pairs(column, target) for column in (number("tips", tips), number("fare", fare))]
    assert strength_of_pair(*groups, target).value > 0.98


def test_too_few_rows_give_no_strength():
    y = np.array([0, 1] * 10, dtype=float)
    assert strength_of_groups(y.astype(int), Target("binary", y)) is None
    rare = np.zeros(ROWS)
    rare[:5] = 1
    assert strength_of_groups(rare.astype(int), Target("binary", rare)) is None


def test_rows_without_a_label_are_left_out(random):
    y = random.integers(0, 2, ROWS).astype(float)
    y[:1000] = np.nan
    assert strength_of(number("copy", np.nan_to_num(y)), Target("binary", y)).is_leak


def test_columns_are_cut_into_groups():
    assert groups_of(column_of("c", "aabbc")).tolist() == [1, 1, 2, 2, 3]
    assert groups_of(column_of("text", ["x " * 9 + str(i) for i in range(99)])) is None
    many = groups_of(number("n", np.append(np.arange(1000.0), np.nan)), 4)
    assert many[-1] == 0
    assert np.bincount(many[:-1]).tolist()[1:] == [333, 333, 334]


def test_codes_jump_from_value_to_value_and_amounts_do_not(random):
    code, amount = random.integers(0, 12, ROWS), random.integers(0, 12, ROWS)
    y = random.permutation(12)[code] + amount + 0.05 * amount**2 + random.normal(size=ROWS)
    target = Target("regression", y)
    assert is_better_by_value(number("code", code.astype(float)), target)
    assert not is_better_by_value(number("amount", amount.astype(float)), target)
    assert not is_better_by_value(number("noise", random.integers(0, 12, ROWS).astype(float)), target)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_trend_is_what_the_repeating_parts_of_a_date_do_not_explain(task, random):
    days = random.integers(0, 730, ROWS)
    dates = column_of("day", np.datetime64("2020-01-06") + days)
    noise = random.normal(size=ROWS)

    def trend(effect):
        y = effect + noise
        labels = {"regression": y, "binary": y > y.mean(), "multiclass": np.digitize(y, [-0.5, 0.5])}
        return has_trend(dates.dates, dates, Target(task, labels[task].astype(float)))

    assert trend(days / 365)
    assert not trend(np.where(days % 7 < 5, 1.0, -1.0))
    assert not trend(np.zeros(ROWS))
    assert not has_trend(dates.dates, dates, Target(task, np.full(ROWS, np.nan)))
