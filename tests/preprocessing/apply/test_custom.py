"""User-defined functions: their inputs, their allowed outputs, and the error messages."""

import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.preprocessing_fn import preprocessing_fn

pytestmark = pytest.mark.integration

MODULE = "user_functions"


@pytest.fixture(autouse=True)
def importable(monkeypatch, request):
    monkeypatch.syspath_prepend(str(request.path.parent))


def custom(function, columns, **fields):
    return {"type": "custom", "function": f"{MODULE}:{function}", "columns": columns, **fields}


def test_custom_features(assert_transform):
    analysed = assert_transform(
        {
            "ratio": custom("ratio_to_mean", {"x": "number"}),
            "pair": custom("pair", {"s": "string"}),
            "ids": custom("ids", {"s": "string"}, ids=4),
        },
        analyze={"x": [1, 3, None], "s": ["a", "b", "c"]},
        apply={"x": [4, None], "s": ["abc", None]},
        expected={"ratio_xf": [3, 0], "pair_xf": [[3, -3], [0, 0]], "ids_xf": [3, 0]},
    )
    assert analysed.size("ids_xf") == 4


def test_a_function_in_place_of_all_transforms_gets_what_serving_has():
    config = PreprocessingConfig.model_validate(
        {
            "features": {"x": "number", "s": "category"},
            "derive": {"double": "2 * x", "leak": "x + y"},
            "label": {"name": "leak", "task": "regression"},
            "function": f"{MODULE}:whole",
        }
    )
    cells = {"x": [[4.0], [0.0]], "s": [["abc"], [""]], "y": [[1.0], [2.0]]}
    inputs = {name: tf.sparse.from_dense(cell) for name, cell in cells.items()}
    result = preprocessing_fn(inputs, {"preprocessing": config.model_dump(mode="json")})
    assert {name: value.numpy().tolist() for name, value in result.items()} == {
        "x_scaled": [8, 0],
        "s_copy": [b"abc", b""],
        "label": [5, 0],
        "example_weight": [1, 0],
        "row_id": [-1, -1],
    }


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (
            custom("absent", {"x": "number"}),
            r"features.f: user_functions:absent cannot be imported: user_functions has no 'absent'",
        ),
        (custom("raises", {"x": "number"}), r"raised ValueError: no luck\n  at .*user_functions.py:\d+ in _inner"),
        (custom("asks", {"x": "number"}), r"features.f: user_functions:asks reads the column 'tips', which it is not"),
        (custom("float64", {"x": "number"}), r"must return float32 \[batch\].*Received: .*float64 \[None\]"),
        (custom("no_tensor", {"x": "number"}), r"must return a tensor. Received: str 'x'"),
        (custom("pair", {"s": "string"}, ids=3), r"must return int64 \[batch\]. Received: .*float32 \[None, 2\]"),
    ],
)
def test_errors_of_custom_features(trace, feature, message):
    with pytest.raises(UserError, match=message):
        trace({"f": feature})


def test_errors_of_a_function_in_place_of_all_transforms(trace):
    with pytest.raises(UserError, match=r"function: .*other than label, example_weight, row_id.*Received: 'label'"):
        trace({"x": "number"}, function=f"{MODULE}:whole_with_label")
    with pytest.raises(UserError, match=r"function: .*must return a dict"):
        trace({"x": "number", "s": "category"}, function=f"{MODULE}:pair")
