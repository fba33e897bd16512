"""Steps that compute with numbers."""

import numpy as np


def flushed(values):
    """Returns numbers as TensorFlow calculates with them: those too small to be normal are 0."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, values * 0, values)


def _arithmetic(function):
    return lambda *values, **_: flushed(np.asarray(function(*values)))


def _plain(function):
    return lambda *values, **_: np.asarray(function(*values))


def _reduce(function):
    def apply(values, axis, keep_dims=False, **_):
        made = function(values, axis=tuple(np.ravel(axis).tolist()), keepdims=keep_dims)
        return np.asarray(made, values.dtype)

    return apply


def _search(side):
    def apply(within, values, out_type="int32", **_):
        found = [np.searchsorted(row, wanted, side=side) for row, wanted in zip(within, values, strict=True)]
        return np.asarray(found, out_type).reshape(values.shape)

    return apply


def _cumsum(values, axis, exclusive=False, reverse=False, **_):
    axis = int(axis)
    values = np.flip(values, axis) if reverse else values
    sums = np.cumsum(values, axis=axis, dtype=values.dtype)
    sums = sums - values if exclusive else sums
    return np.flip(sums, axis) if reverse else sums


def _segments(function, first):
    """Returns a step that joins the values of each segment by a function, from a first value of their type on."""

    def apply(values, segments, count, **_):
        made = np.full((int(count), *values.shape[segments.ndim :]), first(values.dtype), values.dtype)
        function.at(made, segments[segments >= 0], values[segments >= 0])
        return made

    return apply


def _lowest(dtype):
    return (np.finfo if dtype.kind == "f" else np.iinfo)(dtype).min


NUMBER_STEPS = {
    "Abs": _plain(np.abs),
    "AddV2": _arithmetic(np.add),
    "All": _reduce(np.all),
    "Any": _reduce(np.any),
    "ArgMax": lambda values, axis, output_type="int64", **_: np.argmax(values, axis=int(axis)).astype(output_type),
    "Asin": _plain(np.arcsin),
    "Asinh": _plain(np.arcsinh),
    "Cast": lambda values, DstT, **_: flushed(np.asarray(values).astype(DstT)),
    "Ceil": _plain(np.ceil),
    "Cos": _plain(np.cos),
    "Cumsum": _cumsum,
    "Equal": _plain(np.equal),
    "Exp": _arithmetic(np.exp),
    "Floor": _plain(np.floor),
    "FloorDiv": _plain(np.floor_divide),
    "FloorMod": _plain(np.mod),
    "Greater": _plain(np.greater),
    "GreaterEqual": _plain(np.greater_equal),
    "IsFinite": _plain(np.isfinite),
    "IsNan": _plain(np.isnan),
    "Less": _plain(np.less),
    "LessEqual": _plain(np.less_equal),
    "Log": _plain(np.log),
    "Log1p": _plain(np.log1p),
    "LogicalAnd": _plain(np.logical_and),
    "LogicalNot": _plain(np.logical_not),
    "LogicalOr": _plain(np.logical_or),
    "LowerBound": _search("left"),
    "Max": _reduce(np.max),
    "Maximum": _plain(np.maximum),
    "Min": _reduce(np.min),
    "Minimum": _plain(np.minimum),
    "Mul": _arithmetic(np.multiply),
    "Neg": _plain(np.negative),
    "NotEqual": _plain(np.not_equal),
    "Pow": _arithmetic(np.power),
    "Prod": _reduce(np.prod),
    "RealDiv": _arithmetic(np.divide),
    "Round": _plain(np.rint),
    "Sign": _plain(np.sign),
    "Sin": _plain(np.sin),
    "Sqrt": _plain(np.sqrt),
    "Square": _arithmetic(np.square),
    "Sub": _arithmetic(np.subtract),
    "Sum": _reduce(np.sum),
    "Tanh": _plain(np.tanh),
    "UnsortedSegmentMax": _segments(np.maximum, _lowest),
    "UnsortedSegmentSum": _segments(np.add, lambda dtype: 0),
    "UpperBound": _search("right"),
}
"""Name of a step, as TensorFlow calls it -> its function from arrays and options to an array, or to several."""
