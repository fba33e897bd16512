"""The preprocessing of a model with NumPy alone. This file and `preprocessing.json` belong together.

    preprocessing = Preprocessing("preprocessing.json")
    scores = run_the_model(preprocessing.features([{"fare": 12.5, "company": "Flash Cab"}]))
    preprocessing.answers(scores)

`preprocessing.json` lists the steps that lead from raw columns to the inputs of the model, in order. A step has a
name, its inputs and its options; `STEPS` computes it. A text is bytes, and a category is looked up in `tables`.
"""

import functools
import json
import re
import struct
from pathlib import Path

import numpy as np


class Preprocessing:
    """Raw rows -> inputs of the model, and scores of the model -> answers.

    Attributes:
        columns: Raw column -> `type` (number, string, vector), whether its cells are lists (`many`), and the `decimal`
            sign of numbers that are given as its text.
    """

    def __init__(self, file):
        read = json.loads(Path(file).read_text(encoding="utf-8"))
        self.columns, self._feeds, self._inputs = read["columns"], read["feeds"], read["inputs"]
        self._answer, self._steps, self._values = read["answer"], [], {}
        tables = {name: {_bytes(k): v for k, v in table.items()} for name, table in read["tables"].items()}
        for name, inputs, outputs, options in read["steps"]:
            if name == "Const":
                self._values[outputs[0]] = _array(options["value"], options["dtype"]).reshape(options["shape"])
            elif name == "LookupTableFindV2":
                self._steps.append((functools.partial(_look_up, tables[options["table"]]), inputs, outputs, options))
            else:
                self._steps.append((STEPS[name], inputs, outputs, options))

    def features(self, rows):
        """Returns the inputs of the model for rows, each a dict of raw columns; an absent column is missing.

        Numbers are numbers or None, texts str, bytes or None, lists and vectors lists of them.
        """
        known = dict(self._values)
        for name, feed in self._feeds.items():
            known.update(zip(feed, _sparse([row.get(name) for row in rows], self.columns[name]), strict=True))
        with np.errstate(all="ignore"):
            for compute, inputs, outputs, options in self._steps:
                made = compute(*[known[name] for name in inputs], **options)
                known.update(zip(outputs, made if isinstance(made, (list, tuple)) else [made], strict=True))
        return {key: _dense([known[part] for part in parts], len(rows)) for key, parts in self._inputs.items()}

    def answers(self, scores):
        """Returns a dict per row with `prediction`, and `probabilities` by class or `quantiles` by level."""
        classes, threshold = self._answer["classes"], self._answer["threshold"]
        found = []
        for row in np.asarray(scores, np.float64):
            if not classes:
                quantiles = dict(zip(self._answer["levels"], row[1:].tolist(), strict=True))
                found.append({"prediction": float(row[0]), **({"quantiles": quantiles} if quantiles else {})})
                continue
            if self._answer["separator"] is not None:
                prediction = self._answer["separator"].join(c for c, p in zip(classes, row, strict=True) if p >= 0.5)
            elif threshold is not None:
                prediction = classes[int(row[1] > threshold)]
            else:
                prediction = classes[int(np.argmax(row))]
            found.append({"prediction": prediction, "probabilities": dict(zip(classes, row.tolist(), strict=True))})
        return found


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _written(value, decimal):
    return str(value).replace(".", decimal) if isinstance(value, float) else value


def _texts(values):
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _array(values, dtype):
    return _texts([_bytes(value) for value in values]) if dtype == "string" else np.array(values, dtype)


def _is_missing(value):
    return value is None or value in ("", b"") or value != value


def _sparse(cells, column):
    """Returns a column as TensorFlow parses it: positions int64 [n, 2], values [n], and shape int64 [2]."""
    single = column["type"] != "vector" and not column["many"]
    lists = [[cell] if single else list(cell or ()) for cell in cells]
    positions, values = [], []
    for row, found in enumerate(lists):
        while found and _is_missing(found[-1]):
            found = found[:-1]
        positions += [(row, place) for place in range(len(found))]
        values += found
    if column["type"] == "string":
        made = _texts([_bytes(_written(value, column["decimal"])) if value is not None else b"" for value in values])
    else:
        made = _flushed(np.array([np.nan if value is None else value for value in values], np.float32))
    width = max([1, *map(len, lists)])
    return np.array(positions, np.int64).reshape(-1, 2), made, np.array([len(cells), width], np.int64)


def _dense(parts, rows):
    """Returns an input of the model; a sparse one becomes rows that begin at the left, padded with 0."""
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0])
    owners, values = parts[0][:, 0], parts[1]
    lengths = np.bincount(owners, minlength=rows)
    made = np.zeros((rows, max(1, lengths.max(initial=0))), values.dtype)
    made[owners, np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = values
    return made


def _each(function, dtype=object):
    """Returns a function that applies `function` to every element of its arrays."""

    def apply(*arrays, **_):
        together = arrays if len(arrays) == 1 else np.broadcast_arrays(*arrays)
        made = np.empty(together[0].size, dtype)
        made[:] = [function(*values) for values in zip(*(array.ravel().tolist() for array in together), strict=True)]
        return made.reshape(together[0].shape)

    return apply


def _look_up(ids, keys, default, **_):
    return _each(lambda key: ids.get(key, int(default)), np.int64)(keys)


def _flushed(values):
    """Returns numbers as TensorFlow calculates with them: those too small to be normal are 0."""
    if values.dtype.kind != "f":
        return values
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, values * 0, values)


def _arithmetic(function):
    return lambda *values, **_: _flushed(np.asarray(function(*values)))


def _binary(function):
    return lambda a, b, **_: np.asarray(function(a, b))


def _unary(function):
    return lambda a, **_: np.asarray(function(a))


def _reduce(function):
    def apply(values, axis, keep_dims=False, **_):
        made = function(values, axis=tuple(np.ravel(axis).tolist()), keepdims=keep_dims)
        return np.asarray(made, values.dtype)

    return apply


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


def _sparse_to_dense(indices, shape, values, default, **_):
    made = np.full(shape.tolist(), default[()], values.dtype)
    made[tuple(indices.T)] = values
    return made


def _scatter(values, indices, updates, **_):
    made = values.copy()
    made[tuple(indices.T)] = updates
    return made


def _as_string(values, precision=-1, scientific=False, shortest=False, **_):
    if values.dtype.kind == "b":
        return _each(lambda value: b"true" if value else b"false")(values)
    if values.dtype.kind in "iu":
        return _each(lambda value: b"%d" % value)(values)
    form = "%" + ("" if precision < 0 else f".{precision}") + ("e" if scientific else "g" if shortest else "f")
    return _each(lambda value: (form % value).encode())(values)


_NOT_A_CHARACTER = r"\udc80-\udcff"
"""Bytes that are not UTF-8, as `_characters` returns them: they fit no class of RE2, not even a negated one."""
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_WORD = f"[{_CLASSES['w']}]"
_OF_RE2 = {
    **{name: f"[{inside}]" for name, inside in _CLASSES.items()},
    **{name.upper(): f"[^{inside}{_NOT_A_CHARACTER}]" for name, inside in _CLASSES.items()},
    "C": r"[\s\S]",
    "z": r"\Z",
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
}
"""Letter behind a backslash of RE2 -> an expression of Python with its meaning; `d`, `s`, `w` are ASCII there."""
_PART = re.compile(r"(\(\?[A-Za-z-]+[:)])|\\(.)|\[(\^?)(\]?(?:\\.|[^]\\])*)\]|[.$]", re.DOTALL)
"""Flags, an escape, a class, or a sign: the parts of an expression that differ between RE2 and Python."""
_DOTLESS = {0x130: "\ud800", 0x131: "\ud801"}
"""Letters that equal i in Python, if case is ignored, but not in RE2 -> what stands for them meanwhile."""
_DOTTED = {ord(stand_in): letter for letter, stand_in in _DOTLESS.items()}


@functools.cache
def expression(pattern):
    """Returns a regular expression of RE2 as one of Python that fits the same texts, as `_characters` returns them.

    Raises:
        re.error: It has flags behind its beginning, a class with a name, or another part that has no translation.
    """
    given = (re.match(r"\(\?([ims]+)\)", pattern) or ("", ""))[1]

    def translated(part):
        whole = part[0]
        flags, escape, negated, inside = part.groups()
        if flags and part.start() or re.search(r"\[:|\\[DSWpP]", inside or ""):
            raise re.error(f"{whole} has no translation", pattern)
        if inside is not None:
            inside = re.sub(r"\\([dws])|[\[&~|]", lambda m: _CLASSES[m[1]] if m[1] else "\\" + m[0], inside)
            return f"[^{inside}{_NOT_A_CHARACTER}]" if negated else f"[{inside}]"
        if whole == ".":
            return f"[^{_NOT_A_CHARACTER}]" if "s" in given else rf"[^\n{_NOT_A_CHARACTER}]"
        if whole == "$" and "m" not in given:
            return r"\Z"
        return _OF_RE2.get(escape, whole)

    return re.compile(_PART.sub(translated, pattern))


def _characters(text, compiled):
    """Returns bytes as text, with one surrogate for each byte that is not UTF-8."""
    text = text.decode("utf-8", "surrogateescape")
    return text.translate(_DOTLESS) if compiled.flags & re.IGNORECASE else text


def _regex_replace(values, pattern, rewrite, replace_global=True, **_):
    compiled = expression(pattern)

    def written(match):
        return re.sub(r"\\(.)", lambda part: (match[int(part[1])] or "") if part[1].isdigit() else part[1], rewrite)

    def replaced(value):
        text, made, at, last = _characters(value, compiled), [], 0, -1
        while at <= len(text) and (match := compiled.search(text, at)) is not None:
            if match.end() == last:  # RE2 skips a character where an empty match follows another match.
                made.append(text[at : at + 1])
                at += 1
                continue
            made += [text[at : match.start()], written(match)]
            at = last = match.end()
            if not replace_global:
                break
        return "".join([*made, text[at:]]).translate(_DOTTED).encode("utf-8", "surrogateescape")

    return _each(replaced)(values)


def _regex_full_match(values, pattern, **_):
    compiled = expression(pattern)
    return _each(lambda value: compiled.fullmatch(_characters(value, compiled)) is not None, bool)(values)


def _with_case(change):
    """Returns a step that changes the case as TensorFlow does: the text ends at a zero byte."""

    def changed(text, encoding):
        if not encoding:
            return change(text)
        return change(text.partition(b"\0")[0].decode("utf-8", "replace")).encode()

    return lambda texts, encoding="", **_: _each(lambda text: changed(text, encoding))(texts)


def _in_unit(text, unit):
    """Returns the parts of a text that are counted: its bytes, or its characters with their continuation bytes."""
    return re.findall(rb"(?s)^[\x80-\xbf]+|[^\x80-\xbf][\x80-\xbf]*" if unit == "UTF8_CHAR" else b"(?s).", text)


def _substr(texts, first, count, unit="BYTE", **_):
    return _each(lambda text, at, n: b"".join(_in_unit(text, unit)[at:][:n]))(texts, first, count)


def _string_length(texts, unit="BYTE", **_):
    def length(text):
        return len(text) if unit == "BYTE" else len(re.findall(rb"(?s)[^\x80-\xbf]", text))

    return _each(length, np.int32)(texts)


def _rows(lengths, values):
    """Returns rows of the given lengths as a sparse tensor: positions int64 [n, 2], values, and shape."""
    lengths = np.asarray(lengths, np.int64)
    owners, begins = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    positions = np.stack([owners, np.arange(len(owners)) - begins[owners]], axis=1).astype(np.int64)
    return positions, values, np.array([len(lengths), lengths.max(initial=0)], np.int64)


def _string_split(texts, separator, maxsplit=-1, **_):
    parts = [text.split(separator.item() or None, maxsplit) for text in texts.tolist()]
    return _rows([len(part) for part in parts], _texts([text for part in parts for text in part]))


def _segments(function, first):
    """Returns a step that joins the values of each segment by a function, from a first value of their type on."""

    def apply(values, segments, count, **_):
        made = np.full((int(count), *values.shape[segments.ndim :]), first(values.dtype), values.dtype)
        function.at(made, segments[segments >= 0], values[segments >= 0])
        return made

    return apply


def _lowest(dtype):
    return (np.finfo if dtype.kind == "f" else np.iinfo)(dtype).min


def _decode_csv(records, *defaults, field_delim=",", **_):
    cells = [record.split(field_delim.encode()) for record in records.ravel().tolist()]
    made = []
    for i, default in enumerate(defaults):
        found = [row[i] or default.ravel()[0] for row in cells]
        made.append(_texts(found) if default.dtype == object else np.array([int(f) for f in found], default.dtype))
    return made


_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def fingerprint(text):
    """Returns the 64-bit FarmHash fingerprint of bytes, by which ids are hashed. Source: FarmHash, `Fingerprint64`."""
    n, mul = len(text), (_K2 + 2 * len(text)) & _MASK
    at = lambda place: struct.unpack_from("<Q", text, place)[0]  # noqa: E731
    if n > 64:
        return _long_fingerprint(text, at)
    if n > 16:
        a, b, c, d = at(0) * (_K1 if n <= 32 else _K2), at(8), at(n - 8) * mul, at(n - 16) * _K2
        y = _turn(a + b, 43) + _turn(c, 30) + d
        z = _mixed(y, a + _turn(b + _K2, 18) + c, mul)
        if n <= 32:
            return z
        e, f, g, h = at(16) * mul, at(24), (y + at(n - 32)) * mul, (z + at(n - 24)) * mul
        return _mixed(_turn(e + f, 43) + _turn(g, 30) + h, e + _turn(f + a, 18) + g, mul)
    if n >= 8:
        a, b = at(0) + _K2, at(n - 8)
        return _mixed(_turn(b, 37) * mul + a, (_turn(a, 25) + b) * mul, mul)
    if n >= 4:
        first, last = struct.unpack_from("<I", text, 0)[0], struct.unpack_from("<I", text, n - 4)[0]
        return _mixed(n + (first << 3), last, mul)
    if n:
        y, z = text[0] + (text[n >> 1] << 8), n + (text[n - 1] << 2)
        return _shifted(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _long_fingerprint(text, at):
    n = len(text)
    x = (81 * _K2 + at(0)) & _MASK
    y = (81 * _K1 + 113) & _MASK
    z = _shifted((y * _K2 + 113) & _MASK) * _K2 & _MASK
    v, w, end = (0, 0), (0, 0), (n - 1) // 64 * 64
    for s in [*range(0, end, 64), end + (n - 1 & 63) - 63]:
        mul, nine = _K1, 1
        if s == end + (n - 1 & 63) - 63:
            mul, nine = (_K1 + ((z & 0xFF) << 1)) & _MASK, 9
            w = ((w[0] + (n - 1 & 63)) & _MASK, w[1])
            v = ((v[0] + w[0]) & _MASK, v[1])
            w = ((w[0] + v[0]) & _MASK, w[1])
        x = _turn(x + y + v[0] + at(s + 8), 37) * mul & _MASK
        y = _turn(y + v[1] + at(s + 48), 42) * mul & _MASK
        x ^= w[1] * nine & _MASK
        y = (y + v[0] * nine + at(s + 40)) & _MASK
        z = _turn(z + w[0], 33) * mul & _MASK
        v = _weak(at, s, v[1] * mul, x + w[0])
        w = _weak(at, s + 32, z + w[1], y + at(s + 16))
        z, x = x, z
    return _mixed(_mixed(v[0], w[0], mul) + _shifted(y) * _K0 + z, _mixed(v[1], w[1], mul) + x, mul)


def _turn(value, by):
    value &= _MASK
    return (value >> by | value << 64 - by) & _MASK


def _shifted(value):
    return value ^ value >> 47


def _mixed(u, v, mul):
    u, v = u & _MASK, v & _MASK
    a = _shifted((u ^ v) * mul & _MASK)
    return _shifted((v ^ a) * mul & _MASK) * mul & _MASK


def _weak(at, s, a, b):
    a += at(s)
    b = _turn(b + a + at(s + 24), 21)
    c = a
    a += at(s + 8) + at(s + 16)
    return (a + at(s + 24)) & _MASK, (b + _turn(a, 44) + c) & _MASK


STEPS = {
    "Abs": _unary(np.abs),
    "AddV2": _arithmetic(np.add),
    "All": _reduce(np.all),
    "Any": _reduce(np.any),
    "ArgMax": lambda values, axis, output_type="int64", **_: np.argmax(values, axis=int(axis)).astype(output_type),
    "AsString": _as_string,
    "Asin": _unary(np.arcsin),
    "Asinh": _unary(np.arcsinh),
    "BroadcastTo": lambda values, shape, **_: np.broadcast_to(values, shape.tolist()),
    "Cast": lambda values, DstT, **_: _flushed(np.asarray(values).astype(DstT)),
    "Ceil": _unary(np.ceil),
    "ConcatV2": lambda *parts, **_: np.concatenate(parts[:-1], axis=int(parts[-1])),
    "Cos": _unary(np.cos),
    "Cumsum": _cumsum,
    "DecodeCSV": _decode_csv,
    "Equal": _binary(np.equal),
    "Exp": _arithmetic(np.exp),
    "ExpandDims": lambda values, axis, **_: np.expand_dims(values, int(axis)),
    "Fill": lambda shape, value, **_: np.full(shape.tolist(), value[()], value.dtype),
    "Floor": _unary(np.floor),
    "FloorDiv": _binary(np.floor_divide),
    "FloorMod": _binary(np.mod),
    "GatherV2": _gather,
    "Greater": _binary(np.greater),
    "GreaterEqual": _binary(np.greater_equal),
    "IsFinite": _unary(np.isfinite),
    "IsNan": _unary(np.isnan),
    "Less": _binary(np.less),
    "LessEqual": _binary(np.less_equal),
    "Log": _unary(np.log),
    "Log1p": _unary(np.log1p),
    "LogicalAnd": _binary(np.logical_and),
    "LogicalNot": _unary(np.logical_not),
    "LogicalOr": _binary(np.logical_or),
    "LowerBound": _search("left"),
    "Max": _reduce(np.max),
    "Maximum": _binary(np.maximum),
    "Min": _reduce(np.min),
    "Minimum": _binary(np.minimum),
    "Mul": _arithmetic(np.multiply),
    "Neg": _unary(np.negative),
    "NotEqual": _binary(np.not_equal),
    "Pack": lambda *parts, axis=0, **_: np.stack(parts, axis=axis),
    "Pad": lambda values, widths, **_: np.pad(values, widths.tolist()),
    "PadV2": lambda values, widths, by, **_: np.pad(values, widths.tolist(), constant_values=by[()]),
    "Pow": _arithmetic(np.power),
    "Range": lambda first, last, step, **_: np.arange(first, last, step, dtype=first.dtype),
    "Prod": _reduce(np.prod),
    "RaggedTensorToSparse": lambda splits, values, **_: _rows(np.diff(splits), values),
    "RealDiv": _arithmetic(np.divide),
    "RegexFullMatch": lambda values, pattern, **_: _regex_full_match(values, pattern.item().decode()),
    "Reshape": lambda values, shape, **_: np.reshape(values, shape.tolist()),
    "Round": _unary(np.rint),
    "SelectV2": lambda condition, a, b, **_: np.where(condition, a, b),
    "Shape": lambda values, out_type="int32", **_: np.array(values.shape, out_type),
    "ShapeN": lambda *values, out_type="int32", **_: [np.array(value.shape, out_type) for value in values],
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Size": lambda values, out_type="int32", **_: np.array(values.size, out_type),
    "SparseToDense": _sparse_to_dense,
    "Split": lambda axis, values, num_split, **_: np.split(values, num_split, axis=int(axis)),
    "SplitV": lambda values, sizes, axis, **_: np.split(values, np.cumsum(sizes)[:-1].tolist(), axis=int(axis)),
    "Sqrt": _unary(np.sqrt),
    "Square": _arithmetic(np.square),
    "Squeeze": lambda values, squeeze_dims=(), **_: np.squeeze(values, tuple(squeeze_dims) or None),
    "StaticRegexFullMatch": _regex_full_match,
    "StaticRegexReplace": _regex_replace,
    "StridedSlice": _strided_slice,
    "StringJoin": lambda *parts, separator="", **_: _each(lambda *texts: separator.encode().join(texts))(*parts),
    "StringLength": _string_length,
    "StringLower": _with_case(lambda text: text.lower()),
    "StringSplitV2": _string_split,
    "StringStrip": _each(lambda text: text.strip(b" \t\n\v\f\r")),
    "StringToHashBucketFast": lambda texts, num_buckets, **_: _each(lambda t: fingerprint(t) % num_buckets, np.int64)(
        texts
    ),
    "StringToNumber": lambda texts, out_type="float32", **_: _each(
        int if out_type.startswith("int") else float, out_type
    )(texts),
    "StringUpper": _with_case(lambda text: text.upper()),
    "Sub": _arithmetic(np.subtract),
    "Substr": _substr,
    "Sum": _reduce(np.sum),
    "Tanh": _unary(np.tanh),
    "TensorScatterUpdate": _scatter,
    "Tile": lambda values, times, **_: np.tile(values, times.tolist()),
    "Transpose": lambda values, axes, **_: np.transpose(values, axes.tolist()),
    "Unpack": lambda values, num, axis=0, **_: [np.take(values, i, axis=axis) for i in range(num)],
    "UnsortedSegmentMax": _segments(np.maximum, _lowest),
    "UnsortedSegmentSum": _segments(np.add, lambda dtype: 0),
    "UpperBound": _search("right"),
    "Where": lambda values, **_: np.argwhere(values),
    "ZerosLike": _unary(np.zeros_like),
}
"""Name of a step, as TensorFlow calls it -> its function from arrays and options to an array, or to several."""
