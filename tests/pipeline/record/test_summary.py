"""What a run ends with, as it is printed: the last blessed model beside the new one, and slices that do not hold."""

import json

import pytest

from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.printing import console
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.gather_facts import read_trials
from fullpass.pipeline.record.summary import print_summary, training_words, trials_table

WINDOW = [(None, 1000, 0.8, 0.82), ("a", 600, 0.9, 0.9), ("b", 390, 0.6, 0.75), ("c", 10, 0.1, 0.9)]
NEWEST = [(None, 100, 0.71, 0.83), ("a", 60, 0.88, 0.87), ("b", 40, 0.79, 0.78)]


def rows(*, newest):
    for zone, examples, value, baseline in NEWEST if newest else WINDOW:
        values = {"auc": value, "example_count": float(examples)}
        yield MeasuredRows(() if zone is None else (("zone", zone),), values, {"auc": baseline}, newest)


@pytest.fixture
def printed(capsys):
    """Returns `printed(threshold of auc)`: the lines of a refused model's summary."""

    def run(threshold):
        config = EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"auc": threshold}})
        verdict = judge_metrics([*rows(newest=False), *rows(newest=True)], config)
        facts = RunFacts(ok=True, seconds=1.0, rows={"train": 9000, "eval": 1020}, blessed=False)
        facts = facts.plus({"examples": verdict.examples, "reasons": verdict.reasons})
        print_summary(facts, verdict, console(width=200))
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return run


def test_the_window_and_the_newest_span_stand_beside_the_last_blessed_model(printed):
    lines = printed({"min": 0.85})
    assert "Evaluation, 1,000 examples, 100 of the newest span" in lines
    assert "labels 20 of 1,020 eval rows are not measured: no label, or weight 0" in lines
    assert "auc 0.8000 0.8200 too few rows to tell >= 0.85 not met" in lines
    assert "auc, newest span 0.7100 0.8300 too few rows to tell" in lines


def test_a_slice_that_does_not_hold_is_named_with_its_value_and_the_bound(printed):
    lines = printed({"slices": {"not_worse_than": "blessed", "tolerance": 0.05}})
    assert "auc, zone b 0.6000 0.7500 too few rows to tell no worse than blessed by over 0.05 not met" in lines
    assert not [line for line in lines if line.startswith("auc, zone a")]
    assert "auc: of 3 slices, 1 have fewer than 100 examples (10 in all); these are not judged" in lines
    assert any(line.startswith("on the slice zone b (390 examples) auc is 0.6000") for line in lines)


def test_of_slices_that_all_hold_the_worst_is_shown(printed):
    lines = printed({"min": 0.85, "newest_span": {"slices": {"min": 0.5, "min_examples": 10}}})
    assert "auc, worst of 2 slices, newest span 0.7900 0.7800 too few rows to tell >= 0.5 met" in lines


TUNING = """\
tuning:
  objective: auc
  search:
    training.learning_rate: {min: 0.001, max: 0.1}
    model.hidden: {choices: [[8], [8, 4]]}
"""


def test_trials_are_shown_best_first(edited, tmp_path, capsys):
    config = load(edited({17: "  started: date\n" + TUNING})).config
    rows = [
        {"trial_id": "0", "score": 0.7, "training.learning_rate": 0.012345, "model.hidden": "[8]"},
        {"trial_id": "1", "score": 0.9, "training.learning_rate": 0.1, "model.hidden": "[8, 4]"},
    ]
    (tmp_path / "tuner_results.json").write_text(json.dumps(rows))
    trials = read_trials(str(tmp_path), config)
    best = {"auc": 0.9, "hyperparameters": {"training.learning_rate": 0.1, "model.hidden": [8, 4]}}
    assert trials[0] == best
    console(width=120).print(trials_table(trials))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Trials, the best 2 of 2; the first was trained"
    numbers = [word for line in lines for word in line.split() if word.startswith("0.")]
    assert numbers == ["0.9000", "0.1", "0.7000", "0.01235"]


TRAINING = {
    "epochs": 7,
    "best_epoch": 4,
    "devices": "2 x GPU",
    "examples_per_second": 123456,
    "input_wait": 0.1234,
    "resumed_at_update": 0,
    "ended_by": "epochs",
}
IN_WORDS = "{}, on 2 x GPU, 123,456 examples a second, 12% of the time waiting for input"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, IN_WORDS.format("7 epochs, the best 4")),
        (
            {"resumed_at_update": 1500},
            IN_WORDS.format("7 epochs, the best 4") + "; resumed after update 1,500 of an earlier run",
        ),
        (
            {"epochs": 4},
            IN_WORDS.format("4 epochs, the best 4 (the last epoch is the best: raise training.epochs)"),
        ),
    ],
)
def test_training_in_one_line(changed, expected):
    assert training_words(TRAINING | changed) == expected
