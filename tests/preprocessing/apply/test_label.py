"""The transformed label and weight, for every task."""

import pytest
import tensorflow as tf
from tensorflow_transform import annotators
from tensorflow_transform.graph_context import TFGraphContext

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.label import label as apply_label
from fullpass.preprocessing.config import PreprocessingConfig

NUMBERS = {"features": {"x": "number"}}


def label(declared, values, weight=None, **types):
    """Returns label and weight of examples, without analysis."""
    config = PreprocessingConfig.model_validate({**NUMBERS, "label": {"name": "y", **declared}, "types": types})
    inputs = {"y": sparse(values)} | ({} if weight is None else {"w": sparse(weight)})
    traced = tf.function(lambda inputs: apply_label(config.label, Columns(inputs, config)), autograph=False)
    # An analyzer is traced in a context of TF Transform, as in a run.
    with TFGraphContext(tf.Module()), annotators.object_tracker_scope(annotators.ObjectTracker()):
        result = traced(inputs)
    assert result["example_weight"].dtype == tf.float32
    assert result["label"].dtype == (tf.int64 if declared["task"] == "multiclass" else tf.float32)
    return result["label"].numpy().tolist(), result["example_weight"].numpy().tolist()


def sparse(values):
    rows = [[i, 0] for i, value in enumerate(values) if value is not None]
    present = [value for value in values if value is not None]
    return tf.SparseTensor(tf.constant(rows, tf.int64, [len(rows), 2]), tf.constant(present), [len(values), 1])


@pytest.mark.integration
def test_regression():
    assert label({"task": "regression"}, [1.5, None, float("nan"), -2.0]) == ([1.5, 0, 0, -2], [1, 0, 0, 1])


@pytest.mark.integration
def test_binary_reads_what_means_true_and_false():
    values = ["true", "No", "1", "0.0", "perhaps", "", None]
    assert label({"task": "binary"}, values) == ([1, 0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0])


def test_binary_of_numbers():
    received = label({"task": "binary"}, [1.0, 0.0, 2.0, None], y="number")
    assert received == ([1, 0, 0, 0], [1, 1, 0, 0])


def test_binary_with_a_positive_value():
    assert label({"task": "binary", "positive": ">50K"}, [">50K", "<=50K", "", None]) == ([1, 0, 0, 0], [1, 1, 0, 0])
    assert label({"task": "binary", "positive": 3}, [3.0, 1.0, None]) == ([1, 0, 0], [1, 1, 0])


def test_binary_with_named_classes_takes_no_other_value():
    declared = {"task": "binary", "classes": ["no", "yes"]}
    assert label(declared, ["yes", "no", "maybe", None]) == ([1, 0, 0, 0], [1, 1, 0, 0])


def test_declared_weights_are_never_negative_nor_missing():
    values, weights = [1.0, 2.0, 3.0, 4.0, None], [0.5, -1.0, None, float("inf"), 2.0]
    assert label({"task": "regression", "weight": "w"}, values, weights)[1] == [0.5, 0, 0, 0, 0]


@pytest.mark.integration
def test_given_classes():
    declared = {"task": "multiclass", "classes": ["1", "2", "3"]}
    assert label(declared, [3.0, 1.0, 4.0, None], y="number") == ([2, 0, 0, 0], [1, 1, 0, 0])


@pytest.mark.integration
def test_several_given_classes():
    declared = {"task": "multilabel", "classes": ["red", "blue", "green"], "separator": ","}
    received = label(declared, ["green, red", "blue,pink", "pink,blue", "pink", None, ","])
    # A cell without a known class is a missing label; a cell of separators only means that no class applies.
    assert received == ([[1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], [1, 1, 1, 0, 0, 1])


@pytest.mark.integration
def test_learned_classes(assert_transform):
    # c occurs three times, b twice, a once.
    analysed = assert_transform(
        {"x": {"type": "number", "missing": 0, "transforms": []}},
        label={"name": "y", "task": "multiclass", "weight": "w"},
        analyze={"x": [0] * 7, "y": ["a", "b", "b", "c", "c", "c", None]},
        apply={"x": [0] * 5, "y": ["b", "new", None, "c", "a"], "w": [2, 2, 2, None, 0.5]},
        expected={"label": [1, 0, 0, 0, 2], "example_weight": [2, 0, 0, 0, 0.5], "x_xf": [0] * 5},
    )
    assert analysed.vocabulary("label") == ["c", "b", "a"]
    assert analysed.size("label") == 3


@pytest.mark.integration
def test_several_learned_classes(assert_transform):
    analysed = assert_transform(
        {"x": {"type": "number", "missing": 0, "transforms": []}},
        label={"name": "y", "task": "multilabel", "separator": "|"},
        analyze={"x": [0] * 3, "y": ["red|blue", "blue", "red|blue|green"]},
        apply={"x": [0] * 4, "y": ["green|red", "pink", None, "blue"]},
        expected={"label": [[2, 1], [], [], [0]], "example_weight": [1, 0, 0, 1], "x_xf": [0] * 4},
    )
    assert analysed.vocabulary("label") == ["blue", "red", "green"]
    assert analysed.size("label") == 3
