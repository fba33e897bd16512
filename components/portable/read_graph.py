"""Reads the transform graph of a loaded export as steps of `preprocess.py`, with its constants and tables."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError, listed
from fullpass.components.portable import preprocess
from fullpass.components.portable.re2 import python_pattern, python_template
from fullpass.preprocessing.columns.outputs import input_name

_TABLE = "LookupTableFindV2"
_REGEX = {
    "RegexFullMatch": "RegexFullMatch",
    "StaticRegexFullMatch": "RegexFullMatch",
    "StaticRegexReplace": "RegexReplace",
}
"""Operation with a regular expression -> its step."""
_SAME = ("Identity", "EnsureShape", "StopGradient")
"""Operations that return their input."""
Step = tuple[str, list[str], list[str], dict[str, Any]]
"""Name, names of the inputs, names of the outputs, options."""


class GraphReader:
    """The transform graph as steps.

    Args:
        function: The transform graph as a concrete function from sparse raw columns to transformed features.

    Attributes:
        steps: The steps that were needed so far, in order; constants first compute.
        tables: Name of a table -> token -> id.
    """

    def __init__(self, function: Any):
        self.steps: list[Step] = []
        self.tables: dict[str, dict[str, int]] = {}
        self._names: dict[str, str] = {}
        self._values: dict[str, np.ndarray] = {}
        signature, graph = function.structured_input_signature[0][0], function.graph
        flat = tf.nest.flatten(signature, expand_composites=True)
        given = tf.nest.pack_sequence_as(signature, graph.inputs[: len(flat)], expand_composites=True)
        self._outputs = tf.nest.pack_sequence_as(function.structured_outputs, graph.outputs, expand_composites=True)
        self.feeds = {
            name: [self._name(part) for part in (column.indices, column.values, column.dense_shape)]
            for name, column in given.items()
        }
        self._captured = {inner.op.name: outer for outer, inner in graph.captures}

    def inputs(self, keys: Mapping[str, str]) -> dict[str, list[str]]:
        """Returns, by key, the values of each input of the network: one, or three of a sparse one.

        Args:
            keys: Keras input of the network -> key.

        Raises:
            UserError: A feature needs an operation that is not among the steps; all such features are named.
        """
        outputs = {input_name(name): value for name, value in self._outputs.items()}
        found: dict[str, list[str]] = {}
        refused: dict[str, list[str]] = {}
        for name, key in keys.items():
            parts = tf.nest.flatten(outputs[name], expand_composites=True)
            unknown = self._unknown(parts)
            if unknown:
                refused[name] = unknown
            elif not refused:
                found[key] = [self._read(part) for part in parts]
        if refused:
            lines = [f"  {name}: {listed(unknown)}" for name, unknown in refused.items()]
            raise UserError(
                "some features are computed by operations that have no step outside TensorFlow:\n"
                + "\n".join(lines)
                + "\nRemove these features from the YAML, or serve the SavedModel, which computes all of them."
            )
        return found

    def _unknown(self, tensors: Iterable[tf.Tensor]) -> list[str]:
        pending, seen, unknown = [tensor.op for tensor in tensors], set(), set()
        while pending:
            operation = pending.pop()
            if operation.name in seen:
                continue
            seen.add(operation.name)
            pending += [tensor.op for tensor in operation.inputs]
            if operation.type in _REGEX:
                try:
                    python_pattern(_pattern(operation))
                except re.error:
                    unknown.add(f"the regular expression {_pattern(operation)}")
            elif operation.type not in (*preprocess.STEPS, *_SAME, "Const", "Placeholder", _TABLE):
                unknown.add(operation.type)
        return sorted(unknown)

    def _read(self, tensor: tf.Tensor) -> str:
        """Appends the steps that compute a tensor, and returns its name."""
        pending = [tensor.op]
        while pending:
            operation = pending[-1]
            if all(output.name in self._names for output in operation.outputs):
                pending.pop()
            elif waiting := [i.op for i in operation.inputs if i.name not in self._names and i.dtype != tf.resource]:
                pending += waiting
            else:
                self._append(pending.pop())
        return self._names[tensor.name]

    def _append(self, operation: tf.Operation) -> None:
        if operation.type in _SAME:
            self._names[operation.outputs[0].name] = self._names[operation.inputs[0].name]
            return
        outputs = [self._name(output) for output in operation.outputs]
        if operation.type in ("Const", "Placeholder"):
            value = operation.get_attr("value") if operation.type == "Const" else self._captured[operation.name].numpy()
            self._constant(outputs[0], tf.make_ndarray(value) if operation.type == "Const" else np.asarray(value))
            return
        options = _options(operation)
        inputs = [self._names[tensor.name] for tensor in operation.inputs if tensor.dtype != tf.resource]
        kind = _REGEX.get(operation.type, operation.type)
        if operation.type in _REGEX:
            inputs = inputs[:1]
            options["pattern"] = python_pattern(_pattern(operation))
            options["rewrite"] = python_template(options.get("rewrite", ""))
        if operation.type == _TABLE:
            options = {"table": self._table(operation)}
        elif all(name in self._values for name in inputs):
            with np.errstate(all="ignore"):
                made = preprocess.STEPS[kind](*[self._values[name] for name in inputs], **options)
            for name, value in zip(outputs, made if isinstance(made, list) else [made], strict=True):
                self._constant(name, np.asarray(value))
            return
        self.steps.append((kind, inputs, outputs, options))

    def _constant(self, name: str, value: np.ndarray) -> None:
        """Adds a constant; constants need not be computed for each row."""
        self._values[name] = value
        texts = value.dtype.kind in "OS"
        flat = [v.decode("utf-8", "surrogateescape") if texts else v for v in value.ravel().tolist()]
        dtype = "string" if texts else value.dtype.name
        self.steps.append(("Const", [], [name], {"dtype": dtype, "shape": list(value.shape), "value": flat}))
        if texts:
            self._values[name] = value.astype(object)

    def _table(self, operation: tf.Operation) -> str:
        handle = operation.inputs[0].op.name
        if handle not in self.tables:
            keys, ids = tf.raw_ops.LookupTableExportV2(
                table_handle=self._captured[handle], Tkeys=tf.string, Tvalues=tf.int64
            )
            pairs = sorted(zip(ids.numpy().tolist(), keys.numpy().tolist(), strict=True))
            self.tables[handle] = {token.decode("utf-8", "surrogateescape"): number for number, token in pairs}
        return handle

    def _name(self, tensor: tf.Tensor) -> str:
        return self._names.setdefault(tensor.name, f"v{len(self._names)}")

    def used(self, inputs: Iterable[Iterable[str]]) -> list[Step]:
        """Returns the steps that inputs of the network depend on, in order."""
        needed = {name for parts in inputs for name in parts}
        kept = []
        for step in reversed(self.steps):
            if needed & set(step[2]):
                kept.append(step)
                needed |= set(step[1])
        return kept[::-1]


def _pattern(operation: tf.Operation) -> str:
    """Returns the regular expression of an operation: an attribute, or a constant input."""
    if "pattern" in operation.node_def.attr:
        return operation.get_attr("pattern").decode()
    return tf.get_static_value(operation.inputs[1]).item().decode()


def _options(operation: tf.Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in operation.node_def.attr.items():
        kind = value.WhichOneof("value")
        if name.startswith("_") or kind not in ("s", "i", "f", "b", "type", "list"):
            continue
        if kind == "list":
            if value.list.i:
                found[name] = list(value.list.i)
        else:
            plain = getattr(value, kind)
            found[name] = plain.decode() if kind == "s" else tf.as_dtype(plain).name if kind == "type" else plain
    return found
