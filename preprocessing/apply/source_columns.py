"""Finds the raw columns that tensors of a graph are computed from."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def source_columns(outputs: Any, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the columns that at least one output is computed from."""
    pending = [tensor.op for tensor in tf.nest.flatten(outputs, expand_composites=True)]
    behind = set()
    while pending:
        operation = pending.pop()
        if operation.name not in behind:
            behind.add(operation.name)
            pending += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return tuple(
        name
        for name, column in columns.items()
        if any(tensor.op.name in behind for tensor in tf.nest.flatten(column, expand_composites=True))
    )
