"""What `tf_internals` promises of TensorFlow: another version that differs fails here first, with a name."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from fullpass.preprocessing.internals.tf_internals import TableInitializer, frozen, prune, saving
from tests import warm_process


def test_a_part_of_a_graph_computes_only_what_it_fetches():
    @tf.function
    def whole(a, b):
        return {"twice": 2 * a, "sum": a + b}

    traced = whole.get_concrete_function(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32))
    twice = traced.outputs[sorted(traced.structured_outputs).index("twice")]
    part = prune(traced.graph, [traced.inputs[0]], {"twice": twice})
    assert part(tf.constant([1, 2]))["twice"].numpy().tolist() == [2, 4]
    (total,) = (tensor for tensor in traced.outputs if tensor is not twice)
    with_constant = prune(traced.graph, [traced.inputs[0]], total, {traced.inputs[1].name: tf.constant([10, 20])})
    assert with_constant(tf.constant([1, 2])).numpy().tolist() == [11, 22]


def test_a_part_of_a_graph_has_equal_constants_once():
    @tf.function
    def whole(a):
        with tf.control_dependencies([tf.constant(7), tf.constant(7)]):
            b = tf.identity(a)
        return {"x": (a + 7) * (b - 7), "seven": tf.raw_ops.Identity(input=7), "float": tf.cast(a, tf.float32) + 7.0}

    traced = whole.get_concrete_function(tf.TensorSpec([None], tf.int32))
    outputs = dict(zip(sorted(traced.structured_outputs), traced.outputs, strict=True))
    part = prune(traced.graph, traced.inputs[:1], {"x": outputs["x"], "float": outputs["float"]})
    assert [one.type for one in part.graph.get_operations()].count("Const") == 3  # those waited for have an attribute
    found = part(tf.constant([1, 9]))
    assert found["x"].numpy().tolist() == [-48, 32] and found["float"].numpy().tolist() == [8.0, 16.0]
    constants = [one.outputs[0] for one in traced.graph.get_operations() if one.type == "Const"]
    assert [value.numpy() for value in prune(traced.graph, [], constants)()] == [7, 7, 7, 7, 7, 7.0]


def test_captures_are_in_the_order_of_their_names():
    """Python's sets of texts have another order in each process, in which equal graphs would number constants."""
    values = [tf.constant(float(number)) for number in range(9)]

    @tf.function(autograph=False)
    def total():
        return tf.add_n(values)

    graph = total.get_concrete_function().graph
    captured = {inner.name: float(outer) for outer, inner in graph.captures}
    part = prune(graph, [], graph.outputs[0])
    assert [float(outer) for outer, _ in part.graph.captures] == [captured[name] for name in sorted(captured)]
    assert float(part()) == 36.0


@pytest.mark.integration
def test_the_first_computation_is_noticed():
    code = (
        "import tensorflow as tf\n"
        "from fullpass.preprocessing.internals.tf_internals import has_computed\n"
        "assert not has_computed()\n"
        "tf.constant(1)\n"
        "assert has_computed()\n"
    )
    done = warm_process.run([sys.executable, "-c", code], timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_frozen_function_has_constants_and_no_calls():
    weight = tf.Variable([2.0, 3.0])
    inner = tf.function(lambda x: x * weight)
    function = tf.function(lambda x: inner(x) + 1.0, input_signature=[tf.TensorSpec([None, 2])])
    found = frozen(function.get_concrete_function())
    allowed = {"Placeholder", "Const", "Mul", "AddV2", "Identity", "NoOp"}
    assert {one.type for one in found.graph.get_operations()} <= allowed
    assert [tensor.shape.as_list() for tensor in found.inputs] == [[None, 2]]
    np.testing.assert_array_equal(found(tf.constant([[1.0, 1.0]]))[0], [[3.0, 4.0]])


def test_a_table_is_filled_by_any_operations():
    class Squares(TableInitializer):
        def initialize(self, table):
            keys = tf.range(3, dtype=tf.int64)
            return tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=keys, values=keys * keys)

    table = tf.lookup.StaticHashTable(Squares(tf.int64, tf.int64), -1)
    assert table.lookup(tf.constant([2, 3], tf.int64)).numpy().tolist() == [4, -1]


def test_a_function_traced_as_for_saving_is_not_traced_again(tmp_path):
    traced = []

    def double(x):
        traced.append(x)
        return 2 * x

    module = tf.Module()
    module.double = tf.function(double, input_signature=[tf.TensorSpec([None])], autograph=False)
    with saving():
        module.double.get_concrete_function()
    tf.saved_model.save(module, str(tmp_path), signatures={"double": module.double})
    assert len(traced) == 1
    assert tf.saved_model.load(str(tmp_path)).double(tf.constant([3.0])).numpy().tolist() == [6.0]
