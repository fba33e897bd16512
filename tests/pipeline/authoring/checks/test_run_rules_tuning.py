"""What is wrong with a search for hyperparameters."""

import pytest

from tests.pipeline.conftest import section

MISTAKES = {
    "misspelt field": ("training.learning_rat: {min: 0.1, max: 1.0}", 'Did you mean "learning_rate"?'),
    "no such section": ("input.cache: {choices: [memory, none]}", "a path begins with model, training, or"),
    "field of another model": ("model.cross_layers: {min: 1, max: 3}", "model has no 'cross_layers' to search."),
    "no such feature": ("features.compny.encoding.embedding: {min: 2, max: 8}", 'Did you mean "company"?'),
    "value too large": (
        "model.dropout: {min: 0.5, max: 1.5}",
        "1.5 cannot be tried: Input should be less than",
    ),
    "fraction of a count": (
        "training.epochs: {min: 0.5, max: 2.0}",
        "Input should be 'auto'; Input should be a valid integer",
    ),
    "unknown word": ("training.optimizer: {choices: [adam, adan]}", "'adan' cannot be tried"),
    "contradiction": ("training.weight_decay: {min: 0.1, max: 0.2}", "weight_decay is for optimizer: adamw"),
    "encoding of a number": ("features.fare.encoding: {choices: [auto, one_hot]}", "cannot be tried"),
}


@pytest.mark.parametrize(("line", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_path_or_value_that_does_not_exist_is_found_with_its_line(edited, problems_of, line, told):
    [found] = problems_of(edited({17: "  started: date\ntuning:\n  search:\n    " + line}))
    assert found.path == f'tuning.search["{line.partition(": {")[0]}"]'
    assert found.line == 20
    assert told in found.message


@pytest.mark.parametrize(
    ("values", "key", "told"),
    [
        ("{min: 0.1, max: 1.0, log: true}", ".log", "unknown key. Accepted: min, max, step, scale."),
        ("{min: 0.1}", ".max", "missing. Accepted: a whole number or a number."),
        ("{choices: [0.1, 0.2], min: 0.1}", "", "either a range or choices. Remove choices, or min."),
        ("{choices: 3}", ".choices", "Received: the number 3. Accepted: a list"),
        ("3", "", "Received: the number 3. Accepted: a mapping with the keys min, max, step, scale, choices."),
    ],
)
def test_values_that_are_neither_a_range_nor_choices_are_found(edited, problems_of, values, key, told):
    [found] = problems_of(edited(section(f"tuning: {{search: {{training.learning_rate: {values}}}}}")))
    assert found.path == f'tuning.search["training.learning_rate"]{key}'
    assert told in found.message


def test_what_can_be_searched_is_not_found(edited, problems_of):
    search = (
        "    training.learning_rate: {min: 0.001, max: 0.1, scale: log}\n"
        "    training.early_stopping.patience: {min: 1, max: 3}\n"
        "    model.hidden: {choices: [[8], [8, 4]]}\n"
        "    features.company.encoding: {choices: [auto, one_hot]}"
    )
    assert problems_of(edited({17: "  started: date\ntuning:\n  objective: auc\n  search:\n" + search})) == ()


def test_an_objective_that_is_not_measured(edited, problems_of):
    tuning = "tuning:\n  objective: rmse\n  search:\n    training.epochs: {min: 1, max: 3}"
    [found] = problems_of(edited({17: f"  started: date\n{tuning}"}))
    assert (found.path, found.line) == ("tuning.objective", 19)
    assert "There are: log_loss, loss, accuracy, auc." in found.message


def test_a_search_on_several_workers(edited, problems_of):
    training = "training: {distribution: multi_worker}\ntuning: {search: {training.epochs: {min: 1, max: 3}}}"
    [found] = problems_of(edited({17: f"  started: date\n{training}"}))
    assert found.path == "training.distribution"
