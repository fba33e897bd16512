"""What the report says of a training."""

from fullpass.components.report.training import training_charts, training_facts
from tests.components.pages.specs import specs_of, values_of


def test_the_training_shows_the_wait_for_input():
    record = {
        "rows": {"train": 5000, "eval": 500},
        "epochs": 3,
        "best_epoch": 2,
        "batch_size": 100,
        "steps_per_epoch": 50,
        "parameters": 1234,
        "examples_per_second": 9876,
        "devices": "CPU",
        "precision": "float32",
        "classes": {"0": 4000, "1": 1000},
        "history": {"loss": [3.0, 2.0, 1.0], "val_loss": [3.0, 2.5, 2.6]},
        "input": {"train": "kept in memory"},
        "input_wait": 0.25,
        "step_ms": 8.0,
        "seconds": {"read": 1.0, "train": 2.0},
        "ended_by": "epochs",
    }
    facts, charts = training_facts(record), training_charts(record)
    assert ("input", "awaited in 25% of the time; the train split is kept in memory") in facts
    assert ("classes", "0: 4,000; 1: 1,000") in facts
    losses, step, seconds = (specs_of(chart)[0] for chart in charts)
    assert [row[0] for row in values_of(losses, "loss")] == [3.0, 2.0, 1.0, 3.0, 2.5, 2.6]
    assert values_of(step, "name", "milliseconds") == [("waiting for input", 2.0), ("model update", 6.0)]
    assert values_of(seconds, "name", "seconds") == [("read", 1.0), ("train", 2.0)]
    grown = {"trees": {"trees": 120, "leaves": 3720, "forests": 6, "random": 3}}
    for validation, learned in (({}, "all rows of train"), ({"validation": 500}, "train and validation")):
        told = f"120 with 3,720 leaves, in 6 forests that grew on {learned}, 3 of them with random thresholds"
        trees = {**record, **grown, "rows": {**record["rows"], **validation}, "folds": 5}
        facts = training_facts(trees)
        assert ("trees", f"{told}; an epoch is ten rounds") in facts
        assert ("folds", "5 of train choose trees, linear model, and their shares of a blend") in facts
    assert len(training_charts(trees)) == 2, "trees have no training step"
    assert not {"batch size", "input"} & {name for name, _ in facts}
