"""The section `tuning:` and the meaning of its paths."""

import pytest
from pydantic import ValidationError

from fullpass.base.errors import UserError
from fullpass.trainer.tuning.config import Choices, Range, TuningConfig
from fullpass.trainer.tuning.search_space import decode_choice, encode_choices, path_problem, with_values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"min": 2, "max": 1}, "min must be less than max. Received: min: 2, max: 1."),
        ({"min": 0.0, "max": 1.0, "scale": "log"}, "scale: log needs min above 0"),
        ({"min": 0.1, "max": 1.0, "scale": "log", "step": 0.5}, "step is a ratio above 1"),
        ({"min": 1, "max": 10, "step": 0.5}, "the step must be whole"),
        ({"choices": [1]}, "two or more different choices"),
        ({"choices": [[1], [1]]}, "two or more different choices"),
    ],
)
def test_a_range_that_holds_nothing_is_refused(given, expected):
    with pytest.raises(ValidationError, match=expected):
        TuningConfig.model_validate({"search": {"training.epochs": given}})


@pytest.mark.parametrize("choices", [(1, 2), ("a", "b"), ([1], [2, 3]), (None, 1.5), (1, 2.5), (True, False)])
def test_choices_come_back_as_they_were_written(choices):
    spec = Choices(choices=choices)
    encoded = encode_choices(spec)
    assert len({type(value) for value in encoded}) == 1
    back = [decode_choice(spec, value) for value in encoded]
    assert back == list(choices) and [type(v) for v in back] == [type(v) for v in choices]


def test_numbers_of_a_range_keep_their_type():
    assert type(decode_choice(Range(min=1, max=5), 3.0)) is int
    assert type(decode_choice(Range(min=0.5, max=5.0), 3)) is float


def test_a_choice_of_another_search_is_refused():
    with pytest.raises(UserError, match="it belongs to another search"):
        decode_choice(Choices(choices=(1, 2)), 3)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("training.learning_rate", None),
        ("training.early_stopping.patience", None),
        ("model.hidden", None),
        ("features.city.encoding.embedding", None),
        ("features.my.city.encoding", None),
        ("training.learning_rat", "training has no 'learning_rat' to search. Did you mean \"learning_rate\"?"),
        ("training.seed", "training has no 'seed' to search."),
        ("model.cross_layers", "model has no 'cross_layers' to search."),
        ("model.hidden.0", "model.hidden has no '0'."),
        ("features.town.encoding", "there is no feature 'town'."),
        ("data.split", "a path begins with model, training, or features.NAME.encoding."),
    ],
)
def test_paths(path, expected):
    found = path_problem(path, "mlp", {"city": None, "my.city": None})
    assert (found is None) if expected is None else found.startswith(expected)


def test_values_are_put_in_their_places():
    trainer = {"model": {"kind": "mlp", "hidden": [4]}, "training": {"early_stopping": None, "epochs": 3}}
    preprocessing = {"features": {"a": {"encoding": "auto"}, "b": {"encoding": {"embedding": 4, "shared": "x"}}}}
    values = {
        "model.hidden": [8],
        "training.early_stopping.patience": 2,
        "features.a.encoding.embedding": 5,
        "features.b.encoding.embedding": 6,
    }
    changed, declared = with_values(values, trainer, preprocessing)
    assert changed["model"] == {"kind": "mlp", "hidden": [8]}
    assert changed["training"] == {"early_stopping": {"patience": 2}, "epochs": 3}
    assert declared["features"]["a"]["encoding"] == {"embedding": 5}
    assert declared["features"]["b"]["encoding"] == {"embedding": 6, "shared": "x"}
    assert trainer["model"]["hidden"] == [4], "what was given stays"
