"""What `tf_internals` promises of TensorFlow: another version that differs fails here first, with a name."""

import subprocess
import sys

import tensorflow as tf

from fullpass.preprocessing.internals.tf_internals import prune


def test_a_part_of_a_graph_computes_only_what_it_fetches():
    @tf.function
    def whole(a, b):
        return {"twice": 2 * a, "sum": a + b}

    traced = whole.get_concrete_function(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32))
    twice = traced.outputs[sorted(traced.structured_outputs).index("twice")]
    part = prune(traced.graph, [traced.inputs[0]], {"twice": twice})
    assert part(tf.constant([1, 2]))["twice"].numpy().tolist() == [2, 4]


def test_the_context_starts_with_the_first_computation():
    code = (
        "import tensorflow as tf\n"
        "from fullpass.preprocessing.internals.tf_internals import started_context\n"
        "before = started_context()\n"
        "assert before is None or before._context_handle is None\n"
        "tf.constant(1)\n"
        "assert started_context()._context_handle is not None\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
