"""What Fullpass uses of TensorFlow beyond its documented interface.

`tests/preprocessing/internals/test_tf_internals.py` fails first if another version differs.

* `prune`, `copied_part`: a part of a graph as a function, which needs the captured tensors of a traced function. A
  saved function that is called as a whole runs all of its lookups. TensorFlow's `WrappedFunction.prune` copies each
  operation in Python, which takes three times as long.
* `TableInitializer`: fills a table from any operations, and from several files. The public initializers read one file,
  or hold all keys.
* `frozen`: formats other than the SavedModel hold variables as constants.
* `saving`: TensorFlow traces a function again to save it, unless it was traced in the context of saving.
* `has_computed`: whether TensorFlow has started its threads, after which a forked process would hang.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.ops import lookup_ops
from tensorflow.python.saved_model import save_context


class TableInitializer(lookup_ops.TableInitializerBase):
    """Fills a table by the operation that `initialize` returns."""

    def saved_with(self, asset: tf.saved_model.Asset, name: str) -> tf.saved_model.Asset:
        """Returns a file that is saved with the table under an own name."""
        return self._track_trackable(asset, name)


def prune(
    graph: Any, feeds: Sequence[tf.Tensor], fetches: Any, constants: Mapping[str, tf.Tensor] = MappingProxyType({})
) -> Callable[..., Any]:
    """Returns `copied_part` as a traced function."""
    specs = [tf.TensorSpec(None, tensor.dtype) for tensor in feeds]
    compute = copied_part(graph, feeds, fetches, constants)
    return tf.function(compute, autograph=False, input_signature=specs).get_concrete_function()


def copied_part(
    graph: Any, feeds: Sequence[tf.Tensor], fetches: Any, constants: Mapping[str, tf.Tensor]
) -> Callable[..., Any]:
    """Returns a function that computes `fetches`, in their structure, from the values of `feeds`, where it is traced.

    Args:
        graph: The graph of a traced function.
        feeds: Tensors of the graph; the function takes their values in this order.
        fetches: Tensors of the graph, in any structure; what they need besides the feeds is copied.
        constants: Name of a tensor of the graph -> the eager tensor in its place.
    """
    flat = tf.nest.flatten(fetches, expand_composites=True)
    position = {tensor.name: index for index, tensor in enumerate(feeds)}
    captured = {inner.name: outer for outer, inner in graph.captures} | dict(constants)
    known = position.keys() | captured.keys()
    copied, used = set(), set()
    pending = [tensor.op for tensor in flat if tensor.name not in known]
    while pending:
        operation = pending.pop()
        if operation.name not in copied:
            copied.add(operation.name)
            used |= {tensor.name for tensor in operation.inputs if tensor.name in known}
            pending += [tensor.op for tensor in operation.inputs if tensor.name not in known]
            pending += operation.control_inputs
    part = graph.as_graph_def()
    names = [tensor.name for tensor in flat if tensor.name not in known]
    kept = _with_single_constants((node for node in part.node if node.name in copied), set(names))
    del part.node[:]
    part.node.extend(kept)

    def compute(*values: tf.Tensor) -> Any:
        here = tf.compat.v1.get_default_graph()

        def value_of(name: str) -> tf.Tensor:
            return values[position[name]] if name in position else here.capture(captured[name])

        inputs = {name: value_of(name) for name in sorted(used)}  # a set has another order in each process
        made = iter(tf.graph_util.import_graph_def(part, input_map=inputs, return_elements=names, name=""))
        results = [value_of(tensor.name) if tensor.name in known else next(made) for tensor in flat]
        return tf.nest.pack_sequence_as(fetches, results, expand_composites=True)

    return compute


def _with_single_constants(nodes: Iterable[Any], fetched: Collection[str]) -> list[Any]:
    """Returns nodes of a graph with one constant in place of equal ones: a fourth of the nodes of a transform graph.

    Args:
        fetched: Names of tensors whose constants stay.
    """
    kept: list[Any] = []
    first: dict[bytes, str] = {}
    same: dict[str, str] = {}
    for node in nodes:
        if node.op == "Const" and not node.input and f"{node.name}:0" not in fetched:
            unnamed = type(node)(op=node.op, device=node.device, attr=node.attr)
            name = first.setdefault(unnamed.SerializeToString(deterministic=True), node.name)
            if name != node.name:
                same |= {node.name: name, f"^{node.name}": f"^{name}"}
                continue
        kept.append(node)
    for node in kept:
        node.input[:] = [same.get(name, name) for name in node.input]
    return kept


def frozen(function: Any) -> Any:
    """Returns a concrete function with its variables as constants, and with all functions that it calls inlined."""
    return convert_variables_to_constants_v2(function)


def saving() -> AbstractContextManager[None]:
    """Returns the context in which `tf.saved_model.save` traces functions, with its usual options."""
    return save_context.save_context(tf.saved_model.SaveOptions())


def has_computed() -> bool:
    """Returns whether TensorFlow has computed something in this process."""
    found = context.context_safe()
    return found is not None and found._initialized
