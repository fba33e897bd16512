"""Dense raw columns converted to sparse ones, against cells converted one by one."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.input.raw_tensors import to_sparse


def cells_of(sparse: tf.SparseTensor) -> dict[tuple[int, int], object]:
    return dict(zip(map(tuple, sparse.indices.numpy().tolist()), sparse.values.numpy().tolist(), strict=True))


@pytest.mark.integration
def test_only_cells_that_are_not_missing_are_kept_each_in_its_column_and_row():
    columns = {
        "fare": tf.constant([1.5, np.nan, 3.0]),
        "kind": tf.constant(["", "cash", "card"]),
        "tips": tf.constant([np.nan, np.nan, 0.0]),
        "left_out": tf.constant([], tf.float32),
        "company": tf.constant([], tf.string),
        "point": tf.constant([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0]]),
        "tags": tf.ragged.constant([["a", ""], [], ["", "b"]]).to_tensor(""),
    }
    specs = {name: tf.TensorSpec([None, *value.shape[1:]], value.dtype) for name, value in columns.items()}
    specs["tags"] = tf.TensorSpec([None, None], tf.string)  # lists of unknown width
    graph = tf.function(lambda given: to_sparse(given, tf.constant(3, tf.int64)), autograph=False)
    sparse = graph.get_concrete_function(specs)(columns)
    assert set(sparse) == set(columns)
    assert cells_of(sparse["fare"]) == {(0, 0): 1.5, (2, 0): 3.0}
    assert cells_of(sparse["kind"]) == {(1, 0): b"cash", (2, 0): b"card"}
    assert cells_of(sparse["tips"]) == {(2, 0): 0.0}
    assert cells_of(sparse["left_out"]) == cells_of(sparse["company"]) == {}
    assert {name: value.dense_shape.numpy().tolist() for name, value in sparse.items()} == {
        **dict.fromkeys(("fare", "kind", "tips", "left_out", "company"), [3, 1]),
        "point": [3, 2],
        "tags": [3, 2],
    }
    point = cells_of(sparse["point"])
    assert list(point) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    np.testing.assert_array_equal(list(point.values()), [1.0, np.nan, 2.0, 3.0])
    assert cells_of(sparse["tags"]) == {(0, 0): b"a", (2, 0): b"", (2, 1): b"b"}


@pytest.mark.integration
@pytest.mark.parametrize("dtype", [tf.float32, tf.string])
def test_many_columns_take_as_many_operations_as_two(dtype):
    def operations(columns: int) -> int:
        specs = {f"c{i}": tf.TensorSpec([None], dtype) for i in range(columns)}
        graph = tf.function(lambda given: to_sparse(given, tf.constant(9, tf.int64)), autograph=False)
        traced = graph.get_concrete_function(specs)
        inputs_and_results = ("Placeholder", "Identity")
        return sum(operation.type not in inputs_and_results for operation in traced.graph.get_operations())

    assert operations(200) == operations(2)
