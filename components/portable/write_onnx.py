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
"""The operators and the file format of ONNX 1.12, which every accepted version of ONNX Runtime reads."""
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
    read = {name for node in graph.nodes for name in node.input}  # many constants became attributes
    constants = [constant for constant in graph.constants if constant.name in read]
    made = helper.make_graph(graph.nodes, "network", values, [_value(output, function.outputs[0])], constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="fullpass")
    model.ir_version = _IR
    onnx.checker.check_model(model)
    return model


def _value(name: str, tensor: tf.Tensor) -> onnx.ValueInfoProto:
    shape = [size if size is not None else ("batch" if not i else f"{name}_{i}") for i, size in enumerate(tensor.shape)]
    return helper.make_tensor_value_info(name, _dtype(tensor), shape)


class _Graph:
    def __init__(self, inputs: Mapping[str, str]):
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._inputs = inputs
        self._made = 0

    def add(self, operation: tf.Operation) -> None:
        """Adds the nodes of an operation."""
        inputs = [self.name(tensor) for tensor in operation.inputs]
        if operation.type == "Const":
            value = tf.make_ndarray(operation.get_attr("value"))
            self.constants.append(numpy_helper.from_array(np.asarray(value), operation.outputs[0].name))
        elif operation.type in _DIRECT:
            self.node(_DIRECT[operation.type], inputs, operation.outputs[0].name)
        elif operation.type in _NODES:
            _NODES[operation.type](self, operation, inputs, operation.outputs[0].name)

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


AddNodes = Callable[[_Graph, tf.Operation, list[str], str], object]
"""Adds the nodes of an operation, given the names of its inputs and of its output in the model."""


def _fixed(tensor: tf.Tensor) -> np.ndarray:
    value = tf.get_static_value(tensor)
    if value is None:
        raise UserError(f"the network computes {tensor.name}, which ONNX needs as a constant. Use --to litert.")
    return np.asarray(value)


def _axes(operation: tf.Operation) -> list[int]:
    return np.ravel(_fixed(operation.inputs[1])).astype(int).tolist()


def _dtype(tensor: tf.Tensor) -> int:
    return _OF_NUMPY[np.dtype(tensor.dtype.as_numpy_dtype)]


def _reduction(kind: str) -> AddNodes:
    def add(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
        keep = int(operation.get_attr("keep_dims"))
        if kind == "ReduceSum":
            graph.node(kind, [inputs[0], graph.constant(_axes(operation))], output, keepdims=keep)
        elif operation.inputs[0].dtype == tf.bool:
            numbers = graph.cast(inputs[0], TensorProto.FLOAT)
            reduced = graph.node(kind, [numbers], axes=_axes(operation), keepdims=keep)
            graph.cast(reduced, TensorProto.BOOL, output)
        else:
            graph.node(kind, inputs[:1], output, axes=_axes(operation), keepdims=keep)

    return add


def _broadcast(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    value, shape = inputs if operation.type == "BroadcastTo" else reversed(inputs)
    graph.node("Expand", [value, graph.cast(shape, TensorProto.INT64)], output)


def _matmul(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    flags = ("transpose_a", "transpose_b") if operation.type == "MatMul" else ("adj_x", "adj_y")
    sides = []
    for flag, tensor, name in zip(flags, operation.inputs, inputs, strict=True):
        rank = tensor.shape.rank
        order = [*range(rank - 2), rank - 1, rank - 2]
        sides.append(graph.node("Transpose", [name], perm=order) if operation.get_attr(flag) else name)
    graph.node("MatMul", sides, output)


def _pack(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    axis = operation.get_attr("axis")
    at = graph.constant([axis])
    graph.node("Concat", [graph.node("Unsqueeze", [part, at]) for part in inputs], output, axis=axis)


def _gather(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    if operation.get_attr("batch_dims"):
        raise UserError(f"the network gathers by row ({operation.name}), which Fullpass does not write as ONNX.")
    graph.node("Gather", inputs[:2], output, axis=int(_fixed(operation.inputs[2])))


def _strided_slice(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
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
    value = inputs[0]
    if axes:
        value = graph.node("Slice", [value, *(graph.constant(part) for part in (starts, ends, axes, steps))])
    if dropped:
        value = graph.node("Squeeze", [value, graph.constant(dropped)])
    if added:
        value = graph.node("Unsqueeze", [value, graph.constant(added)])
    graph.node("Identity", [value], output)


def _one_hot(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    _, depth, on, off = operation.inputs
    values = np.stack([_fixed(off), _fixed(on)])
    known = [graph.constant(_fixed(depth)), graph.constant(values, values.dtype.name)]
    graph.node("OneHot", [inputs[0], *known], output, axis=operation.get_attr("axis"))


def _cumsum(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    flags = {name: int(operation.get_attr(name)) for name in ("exclusive", "reverse")}
    graph.node("CumSum", [inputs[0], graph.constant(int(_fixed(operation.inputs[1])))], output, **flags)


def _pad(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    widths = graph.constant(_fixed(operation.inputs[1]).T.ravel())
    graph.node("Pad", [inputs[0], widths, *inputs[2:]], output)  # PadV2 has a third input, the value


def _top(graph: _Graph, operation: tf.Operation, inputs: list[str], output: str) -> None:
    count = graph.constant([int(_fixed(operation.inputs[1]))])
    names = [tensor.name for tensor in operation.outputs]
    graph.nodes.append(helper.make_node("TopK", [inputs[0], count], names, axis=-1))


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
_NODES: Mapping[str, AddNodes] = {
    "All": _reduction("ReduceMin"),
    "Any": _reduction("ReduceMax"),
    "BatchMatMulV2": _matmul,
    "BroadcastTo": _broadcast,
    "Cast": lambda graph, op, inputs, output: graph.cast(inputs[0], _dtype(op.outputs[0]), output),
    "ConcatV2": lambda graph, op, inputs, output: graph.node(
        "Concat", inputs[:-1], output, axis=int(_fixed(op.inputs[-1]))
    ),
    "Cumsum": _cumsum,
    "Einsum": lambda graph, op, inputs, output: graph.node(
        "Einsum", inputs, output, equation=op.get_attr("equation").decode()
    ),
    "ExpandDims": lambda graph, op, inputs, output: graph.node(
        "Unsqueeze", [inputs[0], graph.constant(_axes(op))], output
    ),
    "Fill": _broadcast,
    "GatherV2": _gather,
    "MatMul": _matmul,
    "Max": _reduction("ReduceMax"),
    "Mean": _reduction("ReduceMean"),
    "Min": _reduction("ReduceMin"),
    "NotEqual": lambda graph, op, inputs, output: graph.node("Not", [graph.node("Equal", inputs)], output),
    "OneHot": _one_hot,
    "Pack": _pack,
    "Pad": _pad,
    "PadV2": _pad,
    "Prod": _reduction("ReduceProd"),
    "Reshape": lambda graph, op, inputs, output: graph.node(
        "Reshape", [inputs[0], graph.cast(inputs[1], TensorProto.INT64)], output
    ),
    "Rsqrt": lambda graph, op, inputs, output: graph.node("Reciprocal", [graph.node("Sqrt", inputs)], output),
    "Shape": lambda graph, op, inputs, output: graph.cast(graph.node("Shape", inputs), _dtype(op.outputs[0]), output),
    "Softmax": lambda graph, op, inputs, output: graph.node("Softmax", inputs, output, axis=-1),
    "Square": lambda graph, op, inputs, output: graph.node("Mul", inputs * 2, output),
    "Squeeze": lambda graph, op, inputs, output: graph.node(
        "Squeeze", [inputs[0], graph.constant(list(op.get_attr("squeeze_dims")))], output
    ),
    "StridedSlice": _strided_slice,
    "Sum": _reduction("ReduceSum"),
    "TopKV2": _top,
    "Transpose": lambda graph, op, inputs, output: graph.node("Transpose", inputs[:1], output, perm=_axes(op)),
}
"""Operation of TensorFlow -> function that adds its nodes."""
