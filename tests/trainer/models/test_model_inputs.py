"""Model inputs and their encodings, for sizes from a transform graph."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.base.errors import UserError
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.ids import Embedding
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.models.model_inputs import (
    ModelInput,
    embedding_width,
    encode,
    encoded_axis,
    keras_inputs,
    model_inputs,
    transformed_outputs,
)


def graph(ids: dict[str, int] | None = None, dense: dict[str, int | None] | None = None, multi=(), wide=()) -> object:
    """Returns a fake TFTransformOutput: `ids` by size, `dense` by width, `multi` with ragged ids, `wide` with 3 ids."""
    ids, dense = ids or {}, dense or {}
    spec = {name: tf.io.FixedLenFeature([] if w is None else [w], tf.float32) for name, w in dense.items()}
    for name in ids:
        shape = [3] if name in wide else []
        spec[name] = tf.io.VarLenFeature(tf.int64) if name in multi else tf.io.FixedLenFeature(shape, tf.int64)
    spec |= {f"{name}.weight": tf.io.VarLenFeature(tf.float32) for name in multi}
    domains = {name: schema_pb2.IntDomain(min=0, max=size - 1) for name, size in ids.items()}
    return SimpleNamespace(
        transformed_feature_spec=lambda: spec,
        transformed_domains=lambda: domains,
        num_buckets_for_transformed_feature=lambda name: ids[name],
    )


def encoded(outputs, tft_output, values):
    """Returns the outputs of `encode` for values by name, as arrays, and its layers."""
    inputs = model_inputs(outputs, tft_output)
    model = keras.Model(keras_inputs(inputs), encode(inputs))
    found = model({name: np.array(value) for name, value in values.items()})
    return [tensor.numpy() for tensor in (found if isinstance(found, list) else [found])], model


def test_numbers_and_vectors_stay_as_they_are():
    outputs = [Output("a", "a", "dense"), Output("v", "v", "dense")]
    (a, v), _ = encoded(outputs, graph(dense={"a": None, "v": 2}), {"a": [1.0, 2.0], "v": [[3.0, 4.0], [5.0, 6.0]]})
    assert (a.tolist(), v.tolist()) == ([[1], [2]], [[3, 4], [5, 6]])


def test_neighbours_of_one_kind_are_one_tensor_and_the_order_stays():
    outputs = [Output(name, name, "ids" if name in "cde" else "dense") for name in "abcdvfe"]
    tft_output = graph(ids={"c": 2, "d": 3, "e": 2}, dense={"a": None, "b": None, "v": 2, "f": None})
    values = {"a": [1.0], "b": [2.0], "c": [1], "d": [2], "v": [[3.0, 4.0]], "f": [5.0], "e": [0]}
    found, _ = encoded(outputs, tft_output, values)
    assert [tensor.tolist() for tensor in found] == [[[1, 2]], [[0, 1, 0, 0, 1]], [[3, 4]], [[5]], [[1, 0]]]


@pytest.mark.parametrize(("size", "encoding", "width"), [(32, "auto", 32), (33, "auto", 11), (33, "one_hot", 33)])
def test_auto_is_one_hot_up_to_32_ids(size, encoding, width):
    (found,), model = encoded([Output("c", "c", "ids", encoding=encoding)], graph(ids={"c": size}), {"c": [0, 5]})
    assert found.shape == (2, width)
    assert bool(model.weights) is (width == 11)
    if width == size:
        assert found.argmax(axis=1).tolist() == [0, 5]


@pytest.mark.parametrize(("size", "width"), [(2, 2), (100, 21), (1000, 64), (10**6, 64)])
def test_the_auto_width_is_fast_ais_rule(size, width):
    """1.6 * 100**0.56 = 21.1, 1.6 * 1000**0.56 = 76.6, cut to 64."""
    assert embedding_width(ModelInput(None, Output("c", "c", "ids", encoding=Embedding()), size)) == width


def test_id_0_of_a_single_value_is_a_row_of_its_own():
    output = Output("c", "c", "ids", encoding=Embedding(embedding=3))
    (found,), model = encoded([output], graph(ids={"c": 4}), {"c": [0, 3]})
    table = model.weights[0].numpy()
    assert table.shape == (4, 3)
    assert np.abs(table[0]).sum() > 0
    assert found.tolist() == [table[0].tolist(), table[3].tolist()]


def test_several_values_become_the_mean_of_their_embeddings():
    output = Output("c", "c", "ids", multi=True, encoding=Embedding(embedding=2))
    (found,), model = encoded([output], graph(ids={"c": 4}, multi=["c"]), {"c": [[1, 3], [2, 0]]})
    table = model.weights[0].numpy()
    np.testing.assert_allclose(found, [(table[1] + table[3]) / 2, table[2]], rtol=1e-6)


def test_weights_of_several_values_weigh_their_embeddings():
    output = Output("c", "c", "ids", multi=True, encoding=Embedding(embedding=2), weights="c.weight")
    values = {"c": [[1, 3]], "c.weight": [[0.75, 0.25]]}
    (found,), model = encoded([output], graph(ids={"c": 4}, multi=["c"]), values)
    table = model.weights[0].numpy()
    np.testing.assert_allclose(found, [0.75 * table[1] + 0.25 * table[3]], rtol=1e-6)


def test_several_values_one_hot_become_multi_hot():
    output = Output("c", "c", "ids", multi=True, encoding="one_hot")
    (found,), _ = encoded([output], graph(ids={"c": 4}, multi=["c"]), {"c": [[1, 3], [2, 0]]})
    assert found.tolist() == [[0, 1, 0, 1], [0, 0, 1, 0]]


def test_padded_ids_of_a_fixed_length_are_several_values():
    output = Output("c", "c", "ids", multi=True)
    (found,), _ = encoded([output], graph(ids={"c": 4}, wide=["c"]), {"c": [[1, 3, 0]]})
    assert found.tolist() == [[0, 1, 0, 1]]


def shared(size_a: int, size_b: int, width_b: int | str = 2):
    outputs = [
        Output("a", "a", "ids", encoding=Embedding(embedding=2, shared="zones")),
        Output("b", "b", "ids", encoding=Embedding(embedding=width_b, shared="zones")),
    ]
    return encoded(outputs, graph(ids={"a": size_a, "b": size_b}), {"a": [1], "b": [1]})


def test_a_shared_embedding_is_one_table():
    (a, b), model = shared(5, 5)
    assert len(model.weights) == 1
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    ("sizes", "width", "expected"), [((5, 6), 2, "a has 5, b has 6"), ((5, 5), 3, "a has 2, b has 3")]
)
def test_a_shared_embedding_needs_equal_sizes_and_widths(sizes, width, expected):
    with pytest.raises(UserError, match=f"'zones'.*{expected}"):
        shared(*sizes, width)


def test_a_one_hot_feature_stays_so_beside_a_list_of_its_vocabulary_that_is_embedded():
    """The list needs a table of the vocabulary for its attention; the feature alone has few ids."""
    outputs = [Output("c", "c", "ids", table="c"), Output("l", "l", "ids", multi=True, pooling="attention", table="c")]
    inputs = model_inputs(outputs, graph(ids={"c": 8, "l": 8}, multi=["l"]))
    feature, pooled = encode(inputs)
    assert feature.shape == (None, 8)
    widths = [part.rows for part in encoded_axis(inputs)]
    assert widths == [8, pooled.shape[1]]


def test_a_name_with_a_slash_is_an_input_too():
    (found,), _ = encoded([Output("a/b", "a/b", "dense")], graph(dense={"a/b": None}), {"a\N{DIVISION SLASH}b": [1.0]})
    assert found.tolist() == [[1]]


def config(**keys):
    return PreprocessingConfig.model_validate({"label": {"name": "y", "task": "regression"}, **keys})


def test_behind_a_function_of_the_users_the_transform_graph_says_what_there_is():
    given = graph(
        ids={"one": 4, "many": 5, "wide": 6},
        dense={"number": None, "vector": 2, "label": None, "example_weight": None},
        multi=["many"],
        wide=["wide"],
    )
    del given.transformed_feature_spec()["many.weight"]
    found = transformed_outputs(config(features={"x": "number"}, function="m:f"), given)
    assert [(o.name, o.kind, o.multi) for o in found] == [
        ("many", "ids", True),
        ("number", "dense", False),
        ("one", "ids", False),
        ("vector", "dense", False),
        ("wide", "ids", True),
    ]


def test_a_feature_no_model_takes_is_named():
    given = graph()
    given.transformed_feature_spec()["words"] = tf.io.FixedLenFeature([], tf.string)
    with pytest.raises(UserError, match="'words'.*is string"):
        transformed_outputs(config(features={"x": "number"}, function="m:f"), given)
