"""Loads a saved transform graph, and cuts out parts that compute only some of its outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from fullpass.preprocessing.internals.tf_internals import prune

Raw = Mapping[str, tf.SparseTensor]
"""Raw columns as parsed by `column_tensors.raw_feature_spec`: one sparse [batch, values] each."""

WRITTEN: dict[str, Any] = {}
"""The transform graph that this process wrote last, by its folder: whoever applies it here need not load it."""


class TransformGraph:
    """The transform graph in a folder, with its tables, loaded once.

    Args:
        directory: `TFTransformOutput.transform_savedmodel_dir`.
        saved: The graph, if it is loaded already.

    Attributes:
        saved: The loaded SavedModel, with its `transform_fn`.
    """

    def __init__(self, directory: str, saved: Any = None):
        self.saved = tf.saved_model.load(directory) if saved is None else saved
        self._function = concrete_function(self.saved)

    @property
    def outputs(self) -> list[str]:
        """Names of the transformed features, the label, the weight and the row number."""
        return sorted(self._function.structured_outputs)

    def part(self, names: Iterable[str]) -> "GraphPart":
        """Returns the part of the graph that computes `names`."""
        return GraphPart(self.saved, self._function, list(names))


class GraphPart:
    """Computes some outputs of a transform graph from raw columns: float, int or string tensors, dense or sparse.

    Calling the whole graph and using a few of its outputs would compute all of them: a saved function runs all of its
    lookups before it returns. The part is cut out of the graph instead.

    Attributes:
        columns: Names of the raw columns that the outputs are computed from.
    """

    def __init__(self, saved: Any, function: Any, names: list[str]):
        self._saved = saved  # Keeps the tables alive.
        self.names = tuple(names)
        graph = function.graph
        signature = function.structured_input_signature[0][0]
        count = len(tf.nest.flatten(signature, expand_composites=True))
        given = tf.nest.pack_sequence_as(signature, graph.inputs[:count], expand_composites=True)
        outputs = tf.nest.pack_sequence_as(function.structured_outputs, graph.outputs, expand_composites=True)
        self._fetches = {name: tf.nest.map_structure(_source, outputs[name], expand_composites=True) for name in names}
        self.columns = source_columns(self._fetches, {name: given[name] for name in sorted(signature)})
        self._dtypes = {name: signature[name].dtype for name in self.columns}
        feeds = [tensor for name in self.columns for tensor in tf.nest.flatten(given[name], expand_composites=True)]
        self._pruned = prune(graph, feeds, self._fetches)

    def __call__(self, raw: Raw) -> dict[str, tf.Tensor | tf.SparseTensor]:
        """Returns the outputs by name; an absent raw column is missing in every row."""
        rows = raw_row_count(raw)
        columns = [raw[n] if n in raw else missing_column(rows, dtype) for n, dtype in self._dtypes.items()]
        results = self._pruned(*tf.nest.flatten(columns, expand_composites=True))
        for name, fetched in self._fetches.items():
            if isinstance(fetched, tf.Tensor):
                results[name].set_shape(fetched.shape)  # Pruning loses the shape.
        return results


def concrete_function(saved: Any) -> Any:
    """Returns the function of a loaded transform graph, from raw columns to all outputs."""
    whole = saved.transform_fn
    # A saved tf.function has one concrete function; TF Transform saves the concrete function itself.
    return whole.concrete_functions[0] if hasattr(whole, "concrete_functions") else whole


def raw_row_count(raw: Raw) -> tf.Tensor:
    """Returns the number of rows of raw columns, int64 []."""
    first = next(iter(raw.values()))
    return first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first, tf.int64)[0]


def missing_column(rows: tf.Tensor, dtype: tf.DType) -> tf.SparseTensor:
    """Returns a raw column that is missing in every row."""
    shape = tf.stack([rows, tf.constant(0, tf.int64)])
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], dtype), shape)


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor an output is copied from, which does not wait for all lookups; pixels stay uint8."""
    source = tensor.op.inputs[0] if tensor.op.type == "Identity" else tensor
    before = source.op.inputs[0] if source.op.type in ("Cast", "Identity") else source
    is_pixels = source.op.type == "Cast" and before.dtype == tf.uint8
    return before if is_pixels else source


def source_columns(outputs: Any, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the columns that at least one output is computed from."""
    behind = operations_behind(outputs)
    return tuple(
        name
        for name, column in columns.items()
        if any(tensor.op.name in behind for tensor in tf.nest.flatten(column, expand_composites=True))
    )


def operations_behind(outputs: Any) -> set[str]:
    """Returns the names of the operations that at least one output is computed from."""
    pending = [tensor.op for tensor in tf.nest.flatten(outputs, expand_composites=True)]
    behind: set[str] = set()
    while pending:
        operation = pending.pop()
        if operation.name not in behind:
            behind.add(operation.name)
            pending += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return behind
