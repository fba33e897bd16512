"""Class names, class weights, and labels without information."""

from types import SimpleNamespace

import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.label import Label
from fullpass.trainer.input.split_counts import SplitCounts, count_rows
from fullpass.trainer.loss_config import LogNormal, Poisson
from fullpass.trainer.models.class_labels import check_label, check_loss, class_factors, class_names


def counts(class_rows, *, weightless=0, weight=None):
    rows = np.array(class_rows, np.int64)
    used = int(rows.sum())
    return SplitCounts(
        rows=used + weightless,
        weightless=weightless,
        class_rows=rows,
        class_weight=rows.astype(float) if weight is None else np.array(weight, float),
        weight=float(used),
        label_sum=0.0,
        label_squares=0.0,
        not_finite={},
    )


@pytest.mark.parametrize(
    ("label", "names"),
    [
        (Label(name="y", task="regression"), ()),
        (Label(name="y", task="binary"), ("0", "1")),
        (Label(name="y", task="binary", positive=">50K"), ("not >50K", ">50K")),
        (Label(name="y", task="binary", positive=2.0), ("not 2", "2")),
        (Label(name="y", task="binary", positive="kleiner"), ("größer", "kleiner")),
        (Label(name="y", task="multiclass", classes=("b", "a")), ("b", "a")),
        (Label(name="y", task="multilabel", separator="|"), ("größer", "kleiner")),
    ],
)
def test_class_names(label, names):
    learned = SimpleNamespace(vocabulary_by_name=lambda name: {"label": ["größer".encode(), b"kleiner"]}[name])
    assert class_names(label, learned) == names


@pytest.mark.parametrize(
    ("positive", "values", "names"),
    [
        ("2", ["1", "2"], ("1", "2")),
        ("2.0", ["2", "1"], ("1", "2")),
        (2.0, ["1", "2"], ("1", "2")),
        (0.1, ["0.1", "0.5"], ("0.5", "0.1")),
        (None, ["Yes", "No"], ("No", "Yes")),
        (None, ["false", "true"], ("false", "true")),
        ("a", ["a", "b", "c"], ("not a", "a")),
        ("a", ["a"], ("not a", "a")),
        ("a", ["b", "c"], ("not a", "a")),
        (None, ["yes", "Yes", "no"], ("0", "1")),
        (None, [""], ("0", "1")),
    ],
)
def test_two_values_name_the_classes_of_a_binary_label(positive, values, names):
    learned = SimpleNamespace(vocabulary_by_name=lambda name: [value.encode() for value in values])
    label = Label(name="y", task="binary", positive=positive, class_weights={names[0]: 2.0})
    assert class_names(label, learned) == names
    assert class_factors(label, names, counts([1, 1])).tolist() == [2, 1]


def test_weights_may_use_the_names_that_need_no_data():
    label = Label(name="y", task="binary", positive="2", class_weights={"not 2": 3.0})
    assert class_factors(label, ("1", "2"), counts([1, 1])).tolist() == [3, 1]


def test_balanced_weights_are_worked_out_by_hand():
    """100 rows in 3 classes of 50, 40 and 10: 100/(3*50), 100/(3*40), 100/(3*10)."""
    label = Label(name="y", task="multiclass", class_weights="balanced")
    factors = class_factors(label, ("a", "b", "c"), counts([50, 40, 10]))
    assert factors == pytest.approx([0.666667, 0.833333, 3.333333], rel=1e-5)
    assert factors @ [50, 40, 10] == pytest.approx(100)


def test_given_weights_go_by_name_and_others_stay_1():
    label = Label(name="y", task="multiclass", class_weights={"c": 5.0})
    assert class_factors(label, ("a", "b", "c"), counts([1, 1, 1])).tolist() == [1, 1, 5]
    assert len(class_factors(Label(name="y", task="binary"), ("0", "1"), counts([1, 1]))) == 0


def test_a_weight_for_a_class_that_does_not_exist():
    label = Label(name="y", task="binary", positive="yes", class_weights={"yess": 5.0})
    with pytest.raises(UserError, match="no class 'yess'. Did you mean \"yes\"\\?.*Classes: not yes, yes"):
        class_factors(label, ("not yes", "yes"), counts([1, 1]))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_one_class_is_nothing_to_learn(task):
    with pytest.raises(UserError, match="all 7 labelled train rows are of one class, 'b'"):
        check_label(Label(name="y", task=task), ("a", "b"), counts([0, 7]))


def test_no_class_at_all_is_nothing_to_learn():
    with pytest.raises(UserError, match="no train row has any class"):
        check_label(
            Label(name="y", task="multilabel", separator="|", max_missing=1.0), ("a", "b"), counts([0, 0], weightless=1)
        )


def test_too_many_missing_labels_fail_with_the_numbers():
    label = Label(name="y", task="binary", max_missing=0.05)
    check_label(label, ("0", "1"), counts([50, 45], weightless=5))
    with pytest.raises(UserError, match=r"6 of 100 train rows \(6.0%\) have no usable label in 'y'.*allows 5.0%"):
        check_label(label, ("0", "1"), counts([50, 44], weightless=6))


def test_rows_that_a_weight_column_switches_off_are_not_missing_labels():
    label = Label(name="y", task="binary", weight="w", max_missing=0.0)
    check_label(label, ("0", "1"), counts([5, 5], weightless=90))


def test_a_loss_that_is_not_for_such_labels():
    label = Label(name="bikes", task="regression")
    labels = np.array([3, 0, -1, -2], np.float32)
    found = count_rows(5, labels, np.ones(4, np.float32), "regression", 0)
    with pytest.raises(UserError, match=r"poisson is for labels 0 and above; 2 of 4 train rows .* 'bikes'"):
        check_loss(label, Poisson(kind="poisson"), "train", found)
    with pytest.raises(UserError, match=r"log_normal is for labels above 0; 3 of 4 eval rows"):
        check_loss(label, LogNormal(kind="log_normal"), "eval", found)
