"""Sentences about a training, from the content of training.json."""

import pytest

from fullpass.trainer.insight.words import ended_words, reference_doubt, tried_words

FOUND = {"kind": "ridge regression", "metric": "rmse", "reference": 3.0, "network": 2.5, "reach": 0.1}
FOUND |= {"train_rows": 900, "eval_rows": 100, "seconds": 0.1}


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        ({}, ""),
        ({"reach": 0.6}, "better by 0.5000 ± 0.6000, within chance"),
        ({"network": 3.5}, "worse by 0.5000 ± 0.1000"),
        ({"metric": "auc", "reference": 0.7, "network": 0.8, "reach": 0.05}, ""),
        ({"metric": "auc", "reference": 0.8, "network": 0.7, "reach": 0.05}, "worse by 0.1000 ± 0.0500"),
        ({"reach": None}, "better by 0.5000"),
    ],
)
def test_a_model_must_be_better_than_the_reference_beyond_chance(changed, doubt):
    found = reference_doubt({"reference": FOUND | changed, "model": {"task": "regression"}})
    assert (found == "") == (doubt == "") and found.endswith(doubt)


def test_a_model_must_be_better_than_every_baseline_too():
    known = {"metric": "accuracy", "reference": 0.5, "network": 0.7, "reach": 0.1, "eval_rows": 90}
    record = {"reference": FOUND, "model": {"task": "multiclass"}}
    assert reference_doubt(record, [{"kind": "last value", **known}]) == ""
    unknown = {"kind": "last season", "reference": None, "network": None, "reach": None, "eval_rows": 0}
    found = reference_doubt(record, [{"kind": "last value", **known, "network": 0.3}, unknown])
    assert found.endswith("beyond chance: last value has accuracy 0.5000, the model 0.3000 on the same 90: worse by "
                          "0.2000 ± 0.1000; last season is known for no row of eval")  # fmt: skip


def test_without_a_reference_there_is_doubt_unless_the_label_has_several_classes_per_row():
    assert "could not be measured" in reference_doubt({"reference": None, "model": {"task": "binary"}})
    assert reference_doubt({"reference": None, "model": {"task": "multilabel"}}) == reference_doubt({}) == ""


def test_it_says_which_model_was_kept_and_why():
    record = {"compared": {"trees": 0.43, "wide_deep": 0.42}, "rows": {"validation": 90}, "model": {"monitor": "rmse"}}
    blend = {"weights": {"trees": 0.1, "wide_deep": 0.9}, "gain": 0.0001, "reach": 0.0004, "kept": False}
    alone = "wide_deep, by rmse of the validation split: 0.42; trees 0.43"
    assert tried_words(record) == alone
    vain = "a blend (0.10 trees + 0.90 wide_deep) is better by 0.0001 ± 0.0004, within chance"
    assert tried_words(record | {"blend": blend}) == f"{alone}; {vain}"


@pytest.mark.parametrize(
    ("best_epoch", "ended_by", "said"),
    [
        (9, "time", "ended by training.time, the last epoch is the best: raise it"),
        (8, "time", "ended by training.time"),
        (9, "epochs", "the last epoch is the best: raise training.epochs"),
        (8, "epochs", ""),
    ],
)
def test_a_limit_that_ended_a_training_too_early_is_named(best_epoch, ended_by, said):
    assert ended_words({"epochs": 9, "best_epoch": best_epoch, "ended_by": ended_by}) == said
