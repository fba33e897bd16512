"""What Fullpass uses of TensorFlow beyond its documented interface.

`tests/preprocessing/internals/test_tf_internals.py` fails first if another version differs.

* `prune`: a part of a graph as a function. TensorFlow offers it only for graphs of TensorFlow 1
  (`tf.compat.v1.wrap_function`). A saved function that is called as a whole runs all of its lookups.
* `TableInitializer`: fills a table from any operations. The public initializers read one file, or hold all keys.
* `frozen`: formats other than the SavedModel hold variables as constants.
* `has_computed`: whether TensorFlow has started its threads, after which a forked process would hang.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, wrap_function
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.ops import lookup_ops

TableInitializer = lookup_ops.TableInitializerBase


def prune(graph: tf.Graph, feeds: list[tf.Tensor], fetches: Any) -> Callable[..., Any]:
    """Returns the function that computes `fetches`, in their structure, from the values of `feeds`."""
    return wrap_function.WrappedFunction(graph, wrap_function.VariableHolder()).prune(feeds, fetches)


def frozen(function: Any) -> Any:
    """Returns a concrete function with its variables as constants, and with all functions that it calls inlined."""
    return convert_variables_to_constants_v2(function)


def has_computed() -> bool:
    """Returns whether TensorFlow has computed something in this process."""
    found = context.context_safe()
    return found is not None and found._initialized
