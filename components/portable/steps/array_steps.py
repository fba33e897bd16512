"""Steps that take parts of arrays, join them and give them other shapes."""

import numpy as np

from fullpass.components.portable.steps.elements import rows_of_lengths


def _strided_slice(
    values, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0, **_
):
    taken: list = []
    for i, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            taken.append(Ellipsis)
        elif new_axis_mask & bit:
            taken.append(None)
        elif shrink_axis_mask & bit:
            taken.append(first)
        else:
            taken.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return np.asarray(values[tuple(taken)])


def _gather(values, indices, axis, batch_dims=0, **_):
    axis = int(axis)
    if not batch_dims:
        return np.take(values, indices, axis=axis)
    rows = [np.take(value, index, axis=axis - 1) for value, index in zip(values, indices, strict=True)]
    return np.stack(rows) if rows else np.zeros((0, *indices.shape[1:]), values.dtype)


def _sparse_to_dense(indices, shape, values, default, **_):
    made = np.full(shape.tolist(), default[()], values.dtype)
    made[tuple(indices.T)] = values
    return made


def _scatter(values, indices, updates, **_):
    made = values.copy()
    made[tuple(indices.T)] = updates
    return made


ARRAY_STEPS = {
    "BroadcastTo": lambda values, shape, **_: np.broadcast_to(values, shape.tolist()),
    "ConcatV2": lambda *parts, **_: np.concatenate(parts[:-1], axis=int(parts[-1])),
    "ExpandDims": lambda values, axis, **_: np.expand_dims(values, int(axis)),
    "Fill": lambda shape, value, **_: np.full(shape.tolist(), value[()], value.dtype),
    "GatherV2": _gather,
    "Pack": lambda *parts, axis=0, **_: np.stack(parts, axis=axis),
    "Pad": lambda values, widths, **_: np.pad(values, widths.tolist()),
    "PadV2": lambda values, widths, by, **_: np.pad(values, widths.tolist(), constant_values=by[()]),
    "Range": lambda first, last, step, **_: np.arange(first, last, step, dtype=first.dtype),
    "RaggedTensorToSparse": lambda splits, values, **_: rows_of_lengths(np.diff(splits), values),
    "Reshape": lambda values, shape, **_: np.reshape(values, shape.tolist()),
    "SelectV2": lambda condition, a, b, **_: np.where(condition, a, b),
    "Shape": lambda values, out_type="int32", **_: np.array(values.shape, out_type),
    "ShapeN": lambda *values, out_type="int32", **_: [np.array(value.shape, out_type) for value in values],
    "Size": lambda values, out_type="int32", **_: np.array(values.size, out_type),
    "SparseToDense": _sparse_to_dense,
    "Split": lambda axis, values, num_split, **_: np.split(values, num_split, axis=int(axis)),
    "SplitV": lambda values, sizes, axis, **_: np.split(values, np.cumsum(sizes)[:-1].tolist(), axis=int(axis)),
    "Squeeze": lambda values, squeeze_dims=(), **_: np.squeeze(values, tuple(squeeze_dims) or None),
    "StridedSlice": _strided_slice,
    "TensorScatterUpdate": _scatter,
    "Tile": lambda values, times, **_: np.tile(values, times.tolist()),
    "Transpose": lambda values, axes, **_: np.transpose(values, axes.tolist()),
    "Unpack": lambda values, num, axis=0, **_: [np.take(values, i, axis=axis) for i in range(num)],
    "Where": lambda values, **_: np.argwhere(values),
    "ZerosLike": lambda values, **_: np.zeros_like(values),
}
"""Name of a step, as TensorFlow calls it -> its function from arrays and options to an array, or to several."""
