"""What the summary says of training and of the trials of a search."""

import json

from rich.console import Console

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.training_summary import TrainingFacts, read_trials, trials_table

TUNING = """\
tuning:
  objective: auc
  search:
    training.learning_rate: {min: 0.001, max: 0.1}
    model.hidden: {choices: [[8], [8, 4]]}
"""


def test_trials_are_shown_best_first(edited, tmp_path):
    config = load(edited({17: "  started: date\n" + TUNING})).config
    rows = [
        {"trial_id": "0", "score": 0.7, "training.learning_rate": 0.012345, "model.hidden": "[8]"},
        {"trial_id": "1", "score": 0.9, "training.learning_rate": 0.1, "model.hidden": "[8, 4]"},
    ]
    (tmp_path / "tuner_results.json").write_text(json.dumps(rows))
    trials = read_trials(str(tmp_path), config)
    best = {"auc": 0.9, "hyperparameters": {"training.learning_rate": 0.1, "model.hidden": [8, 4]}}
    assert trials.records()[0] == best
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(trials_table(trials))
    lines = console.export_text().splitlines()
    assert lines[0].strip() == "Trials, the best 2 of 2; the first was trained"
    numbers = [word for line in lines for word in line.split() if word.startswith("0.")]
    assert numbers == ["0.9000", "0.1", "0.7000", "0.01235"]


def test_training_in_one_line():
    record = {
        "epochs": 7,
        "best_epoch": 4,
        "devices": "2 x GPU",
        "examples_per_second": 123456,
        "input_wait": 0.1234,
        "resumed_at_update": 0,
        "history": {},
    }
    expected = "7 epochs, the best 4, on 2 x GPU, 123,456 examples a second, 12% of the time waiting for input"
    assert TrainingFacts.of(record).words == expected
    resumed = TrainingFacts.of({**record, "resumed_at_update": 1500}).words
    assert resumed == f"{expected}; resumed after update 1,500 of an earlier run"
    limited = TrainingFacts.of({**record, "epochs": 4, "ended_by": "epochs"}).words
    assert limited.startswith("4 epochs, the best 4 (the last epoch is the best: raise training.epochs), on 2 x GPU")
