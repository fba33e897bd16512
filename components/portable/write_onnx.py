"""Writes a network as ONNX: each operation of its TensorFlow graph as one or a few nodes.

The kinds of networks are few, so their operations are too. Converters exist, but pin versions of NumPy and Protobuf
that one of the two lines of TFX cannot have.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

from fullpass.base.errors import UserError, listed

_OPSET, _IR = 17, 8
_OF_NUMPY = {np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("f4", "f8", "i4", "i8", "u1", "?")}


def onnx_model(function: Any, names: Sequence[str], output: str) -> onnx.ModelProto:
    """Returns a function without variables as a checked ONNX model.

    Args:
        function: A frozen concrete function from tensors [batch, ...] to one tensor.
        names: The names of its inputs in the model.
        output: The name of its output in the model.

    Raises:
        UserError: An operation has no form in ONNX here.
    """
    graph = _Graph(dict(zip((tensor.name for tensor in function.inputs), names, strict=True)))
    operations = function.graph.get_operations()
    known = (*_NODES, *_DIRECT, "Const", "Placeholder", "NoOp")
    unknown = sorted({o.type for o in operations if o.type not in known})
    if unknown:
        raise UserError(
            f"the network has operations that Fullpass does not write as ONNX: {listed(unknown)}. Use --to litert, or "
            "the SavedModel."
        )
    for operation in operations:
        graph.add(operation)
    graph.node("Identity", [graph.name(function.outputs[0])], output)
    values = [_value(name, tensor) for name, tensor in zip(names, function.inputs, strict=True)]
    made = helper.make_graph(graph.nodes, "network", values, [_value(output, function.outputs[0])], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="fullpass")
    model.ir_version = _IR
    onnx.checker.check_model(model)
    return model


def _value(name: str, tensor: tf.Tensor) -> onnx.ValueInfoProto:
    shape = [size if size is not None else ("batch" if not i else f"{name}_{i}") for i, size in enumerate(tensor.shape)]
    return helper.make_tensor_value_info(name, _OF_NUMPY[np.dtype(tensor.dtype.as_numpy_dtype)], shape)


class _Graph:
    """The nodes and constants so far."""

    def __init__(self, inputs: Mapping[str, str]):
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._inputs = inputs
        self._made = 0

    def add(self, operation: tf.Operation) -> None:
        """Adds the nodes of an operation."""
        if operation.type == "Const":
            value = tf.make_ndarray(operation.get_attr("value"))
            self.constants.append(numpy_helper.from_array(np.asarray(value), operation.outputs[0].name))
        elif operation.type in _DIRECT:
            inputs = [self.name(tensor) for tensor in operation.inputs]
            self.node(_DIRECT[operation.type], inputs, operation.outputs[0].name)
        elif operation.type in _NODES:
            _NODES[operation.type](self, operation)

    def name(self, tensor: tf.Tensor) -> str:
        """Returns the name of a tensor in the model."""
        return self._inputs.get(tensor.name, tensor.name)

    def node(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Adds a node with one output, and returns its name."""
        self._made += 1
        output = output or f"between_{self._made}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Adds a constant, and returns its name."""
        self._made += 1
        name = f"constant_{self._made}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def cast(self, value: str, dtype: int, output: str | None = None) -> str:
        """Adds a cast to a dtype of ONNX."""
        return self.node("Cast", [value], output, to=dtype)


def _fixed(tensor: tf.Tensor) -> np.ndarray:
    """Returns the value of a constant tensor."""
    value = tf.get_static_value(tensor)
    if value is None:
        raise UserError(f"the network computes {tensor.name}, which ONNX needs as a constant. Use --to litert.")
    return np.asarray(value)


def _axes(operation: tf.Operation) -> list[int]:
    return np.ravel(_fixed(operation.inputs[1])).astype(int).tolist()


def _reduction(kind: str) -> Callable[[_Graph, tf.Operation], None]:
    def add(graph: _Graph, operation: tf.Operation) -> None:
        value, output = graph.name(operation.inputs[0]), operation.outputs[0].name
        keep = int(operation.get_attr("keep_dims"))
        if kind == "ReduceSum":
            graph.node(kind, [value, graph.constant(_axes(operation))], output, keepdims=keep)
        elif operation.inputs[0].dtype == tf.bool:
            numbers = graph.cast(value, TensorProto.FLOAT)
            reduced = graph.node(kind, [numbers], axes=_axes(operation), keepdims=keep)
            graph.cast(reduced, TensorProto.BOOL, output)
        else:
            graph.node(kind, [value], output, axes=_axes(operation), keepdims=keep)

    return add


def _cast(graph: _Graph, operation: tf.Operation) -> None:
    dtype = _OF_NUMPY[np.dtype(operation.outputs[0].dtype.as_numpy_dtype)]
    graph.cast(graph.name(operation.inputs[0]), dtype, operation.outputs[0].name)


def _shape(graph: _Graph, operation: tf.Operation) -> None:
    shape = graph.node("Shape", [graph.name(operation.inputs[0])])
    dtype = _OF_NUMPY[np.dtype(operation.outputs[0].dtype.as_numpy_dtype)]
    graph.cast(shape, dtype, operation.outputs[0].name)


def _reshape(graph: _Graph, operation: tf.Operation) -> None:
    shape = graph.cast(graph.name(operation.inputs[1]), TensorProto.INT64)
    graph.node("Reshape", [graph.name(operation.inputs[0]), shape], operation.outputs[0].name)


def _broadcast(graph: _Graph, operation: tf.Operation) -> None:
    shape, value = (1, 0) if operation.type == "BroadcastTo" else (0, 1)
    to = graph.cast(graph.name(operation.inputs[shape]), TensorProto.INT64)
    graph.node("Expand", [graph.name(operation.inputs[value]), to], operation.outputs[0].name)


def _matmul(graph: _Graph, operation: tf.Operation) -> None:
    flags = ("transpose_a", "transpose_b") if operation.type == "MatMul" else ("adj_x", "adj_y")
    sides = []
    for flag, tensor in zip(flags, operation.inputs, strict=True):
        rank = tensor.shape.rank
        order = [*range(rank - 2), rank - 1, rank - 2]
        name = graph.name(tensor)
        sides.append(graph.node("Transpose", [name], perm=order) if operation.get_attr(flag) else name)
    graph.node("MatMul", sides, operation.outputs[0].name)


def _einsum(graph: _Graph, operation: tf.Operation) -> None:
    inputs = [graph.name(tensor) for tensor in operation.inputs]
    graph.node("Einsum", inputs, operation.outputs[0].name, equation=operation.get_attr("equation").decode())


def _concat(graph: _Graph, operation: tf.Operation) -> None:
    *parts, axis = operation.inputs
    graph.node("Concat", [graph.name(part) for part in parts], operation.outputs[0].name, axis=int(_fixed(axis)))


def _pack(graph: _Graph, operation: tf.Operation) -> None:
    axis = operation.get_attr("axis")
    at = graph.constant([axis])
    parts = [graph.node("Unsqueeze", [graph.name(part), at]) for part in operation.inputs]
    graph.node("Concat", parts, operation.outputs[0].name, axis=axis)


def _expand_dims(graph: _Graph, operation: tf.Operation) -> None:
    axes = graph.constant(_axes(operation))
    graph.node("Unsqueeze", [graph.name(operation.inputs[0]), axes], operation.outputs[0].name)


def _squeeze(graph: _Graph, operation: tf.Operation) -> None:
    axes = graph.constant(list(operation.get_attr("squeeze_dims")))
    graph.node("Squeeze", [graph.name(operation.inputs[0]), axes], operation.outputs[0].name)


def _gather(graph: _Graph, operation: tf.Operation) -> None:
    values, indices, axis = operation.inputs
    if operation.get_attr("batch_dims"):
        raise UserError(f"the network gathers by row ({operation.name}), which Fullpass does not write as ONNX.")
    graph.node("Gather", [graph.name(values), graph.name(indices)], operation.outputs[0].name, axis=int(_fixed(axis)))


def _strided_slice(graph: _Graph, operation: tf.Operation) -> None:
    """Adds a slice, and drops or adds axes."""
    begin, end, strides = (_fixed(tensor).tolist() for tensor in operation.inputs[1:])
    masks = {
        name: operation.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if masks["ellipsis"]:
        raise UserError(f"the network slices with an ellipsis ({operation.name}), which is not written as ONNX.")
    starts, ends, steps = list[int](), list[int](), list[int]()
    axes, dropped, added = list[int](), list[int](), list[int]()
    axis = 0
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if masks["new_axis"] & bit:
            added.append(i - len(dropped))
            continue
        if masks["shrink_axis"] & bit:
            dropped.append(axis)
            last = first + 1 if first != -1 else np.iinfo(np.int64).max
        elif masks["begin"] & bit and masks["end"] & bit and step == 1:
            axis += 1
            continue
        starts.append(0 if masks["begin"] & bit else first)
        ends.append(np.iinfo(np.int64).max if masks["end"] & bit else last)
        steps.append(step)
        axes.append(axis)
        axis += 1
    value = graph.name(operation.inputs[0])
    if axes:
        value = graph.node("Slice", [value, *(graph.constant(part) for part in (starts, ends, axes, steps))])
    if dropped:
        value = graph.node("Squeeze", [value, graph.constant(dropped)])
    if added:
        value = graph.node("Unsqueeze", [value, graph.constant(added)])
    graph.node("Identity", [value], operation.outputs[0].name)


def _one_hot(graph: _Graph, operation: tf.Operation) -> None:
    ids, depth, on, off = operation.inputs
    values = np.stack([_fixed(off), _fixed(on)])
    inputs = [graph.name(ids), graph.constant(_fixed(depth)), graph.constant(values, values.dtype.name)]
    graph.node("OneHot", inputs, operation.outputs[0].name, axis=operation.get_attr("axis"))


def _not_equal(graph: _Graph, operation: tf.Operation) -> None:
    equal = graph.node("Equal", [graph.name(tensor) for tensor in operation.inputs])
    graph.node("Not", [equal], operation.outputs[0].name)


def _square(graph: _Graph, operation: tf.Operation) -> None:
    graph.node("Mul", [graph.name(operation.inputs[0])] * 2, operation.outputs[0].name)


def _rsqrt(graph: _Graph, operation: tf.Operation) -> None:
    graph.node("Reciprocal", [graph.node("Sqrt", [graph.name(operation.inputs[0])])], operation.outputs[0].name)


def _transpose(graph: _Graph, operation: tf.Operation) -> None:
    graph.node("Transpose", [graph.name(operation.inputs[0])], operation.outputs[0].name, perm=_axes(operation))


def _cumsum(graph: _Graph, operation: tf.Operation) -> None:
    flags = {name: int(operation.get_attr(name)) for name in ("exclusive", "reverse")}
    axis = graph.constant(int(_fixed(operation.inputs[1])))
    graph.node("CumSum", [graph.name(operation.inputs[0]), axis], operation.outputs[0].name, **flags)


def _pad(graph: _Graph, operation: tf.Operation) -> None:
    widths = graph.constant(_fixed(operation.inputs[1]).T.ravel())
    value = [graph.name(operation.inputs[2])] if operation.type == "PadV2" else []
    graph.node("Pad", [graph.name(operation.inputs[0]), widths, *value], operation.outputs[0].name)


def _softmax(graph: _Graph, operation: tf.Operation) -> None:
    graph.node("Softmax", [graph.name(operation.inputs[0])], operation.outputs[0].name, axis=-1)


def _top(graph: _Graph, operation: tf.Operation) -> None:
    count = graph.constant([int(_fixed(operation.inputs[1]))])
    names = [tensor.name for tensor in operation.outputs]
    graph.nodes.append(helper.make_node("TopK", [graph.name(operation.inputs[0]), count], names, axis=-1))


_DIRECT = {
    **{name: name for name in ("Abs", "Exp", "Floor", "Identity", "Log", "Mul", "Neg", "Relu", "Sigmoid", "Sqrt")},
    **{name: name for name in ("Elu", "Equal", "Erf", "Greater", "Less", "Pow", "Selu", "Softplus", "Sub", "Tanh")},
    "AddV2": "Add",
    "BiasAdd": "Add",
    "ClipByValue": "Clip",
    "EnsureShape": "Identity",
    "GreaterEqual": "GreaterOrEqual",
    "IsNan": "IsNaN",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "Maximum": "Max",
    "Minimum": "Min",
    "RealDiv": "Div",
    "SelectV2": "Where",
}
"""Operation of TensorFlow -> the node of ONNX with the same inputs."""
_NODES: Mapping[str, Callable[[_Graph, tf.Operation], None]] = {
    "All": _reduction("ReduceMin"),
    "Any": _reduction("ReduceMax"),
    "BatchMatMulV2": _matmul,
    "BroadcastTo": _broadcast,
    "Cast": _cast,
    "ConcatV2": _concat,
    "Cumsum": _cumsum,
    "Einsum": _einsum,
    "ExpandDims": _expand_dims,
    "Fill": _broadcast,
    "GatherV2": _gather,
    "MatMul": _matmul,
    "Max": _reduction("ReduceMax"),
    "Mean": _reduction("ReduceMean"),
    "Min": _reduction("ReduceMin"),
    "NotEqual": _not_equal,
    "OneHot": _one_hot,
    "Pack": _pack,
    "Pad": _pad,
    "PadV2": _pad,
    "Prod": _reduction("ReduceProd"),
    "Reshape": _reshape,
    "Rsqrt": _rsqrt,
    "Shape": _shape,
    "Softmax": _softmax,
    "Square": _square,
    "Squeeze": _squeeze,
    "StridedSlice": _strided_slice,
    "Sum": _reduction("ReduceSum"),
    "TopKV2": _top,
    "Transpose": _transpose,
}
"""Operation of TensorFlow -> function that adds its nodes."""
