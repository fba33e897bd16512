"""Encodes columns as serialized tf.Examples, a batch at a time.

A tf.Example is a map from names to features, and a serialized map is the concatenation of its entries. Therefore the
entries of all numbers are written as one matrix of bytes, the entries of texts are built by Arrow, and all are joined
row by row. This is several times as fast as building messages. Numbers come first, then texts, each sorted by name. A
missing value is an absent feature.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import as_mask, joined_rows, null_where

_BINARY = pa.binary()
# Tags of protocol buffer fields, all length-delimited: field number << 3 | 2.
_FEATURES = b"\x0a"  # Example.features
_ENTRY = b"\x0a"  # Features.feature, one entry of the map
_KEY, _VALUE = b"\x0a", b"\x12"
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"
_LIST_VALUE = b"\x0a"


def encode_rows(columns: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Returns one serialized tf.Example per row.

    Args:
        columns: Name -> float32, int64 or (large) binary array; list array of float32 with lists of equal length; or
            large list array of float32, int64 or (large) binary with lists of any length. Null is missing. All arrays
            have the same length.
    """
    return examples(encode_features(columns))


def examples_as_bytes(encoded: pa.BinaryArray) -> list[bytes]:
    """Returns the examples of `encode_rows` as bytes objects; Arrow's `to_pylist` takes four times as long."""
    return encoded.to_numpy(zero_copy_only=False).tolist()


def encode_features(columns: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Returns the features of each row for `examples`, equal for equal rows; columns as in `encode_rows`."""
    names = sorted(columns, key=str.encode)
    floats = [name for name in names if _is_float(columns[name].type)]
    numbers = [_float_entries({name: columns[name] for name in floats})] if floats else []
    others = [part for n in names if not _is_float(columns[n].type) for part in _entries(n, columns[n])]
    return joined_rows([*numbers, *others], "", null="")


def examples(*features: pa.BinaryArray) -> pa.BinaryArray:
    """Returns one serialized tf.Example per row, from the results of one or more calls of `encode_features`."""
    sizes = [pc.binary_length(part).to_numpy(zero_copy_only=False).astype(np.int64) for part in features]
    return joined_rows([pa.scalar(_FEATURES, _BINARY), varints(np.sum(sizes, axis=0)), *features], "", null="")


def varints(numbers: np.ndarray) -> pa.BinaryArray:
    """Returns numbers as protocol buffer varints: seven bits per byte, lowest first; negative numbers modulo 2**64."""
    whole = numbers.astype(np.uint64)
    most = whole.max(initial=0)
    # Pixels and most ids fit into two bytes; the narrow type is several times as fast.
    rest: np.ndarray = whole.astype(np.min_scalar_type(most))
    width = max(1, (int(most).bit_length() + 6) // 7)
    columns = np.empty((len(rest), width), dtype=np.uint8)
    used = np.ones((len(rest), width), dtype=bool)
    sizes = np.ones(len(rest), dtype=np.uint8)
    for i in range(width):
        low, rest = (rest & 127).astype(np.uint8), rest >> 7
        more = rest > 0
        columns[:, i] = low | more.view(np.uint8) << 7
        if i + 1 < width:
            used[:, i + 1] = more
        sizes += more
    return _binary(columns, sizes, used)


def _is_float(kind: pa.DataType) -> bool:
    return pa.types.is_float32(kind) or pa.types.is_list(kind)


def _float_entries(columns: Mapping[str, pa.Array]) -> pa.BinaryArray:
    """Returns the entries of all numbers and vectors, which have the same length in every row or are absent."""
    rows = len(next(iter(columns.values())))
    values = {name: _as_bytes(column) for name, column in columns.items()}
    heads = {name: _head(_key(name), _FLOAT_LIST, value.shape[1]) for name, value in values.items()}
    template = b"".join(head + bytes(values[name].shape[1]) for name, head in heads.items())
    matrix = np.empty((rows, len(template)), dtype=np.uint8)
    matrix[:] = np.frombuffer(template, dtype=np.uint8)
    end = 0
    for name, head in heads.items():
        begin = end + len(head)
        end = begin + values[name].shape[1]
        matrix[:, begin:end] = values[name]
    whole = _binary(matrix, np.full(rows, len(template), dtype=np.int64))
    if not any(column.null_count for column in columns.values()):
        return whole
    present = np.stack([as_mask(column.is_valid()) for column in columns.values()], axis=1)
    lacking = ~present.all(axis=1)
    few = lacking.mean() < 0.5  # Only these are cut byte by byte, which takes several times as long as whole rows.
    cut = lacking if few else slice(None)
    widths = np.array([len(heads[name]) + values[name].shape[1] for name in heads])
    shorter = _binary(matrix[cut], present[cut] @ widths, np.repeat(present[cut], widths, axis=1))
    return pc.replace_with_mask(whole, pa.array(lacking), shorter) if few else shorter


def _as_bytes(column: pa.Array) -> np.ndarray:
    """Returns float32 values as uint8 [rows, 4 * values per row]; null rows have arbitrary bytes."""
    if not pa.types.is_list(column.type):
        return column.to_numpy(zero_copy_only=False).astype("<f4").view(np.uint8).reshape(len(column), 4)
    present = as_mask(column.is_valid())
    flat = column.flatten().to_numpy(zero_copy_only=False).astype("<f4").view(np.uint8)
    width = len(flat) // max(int(present.sum()), 1)
    values = np.zeros((len(column), width), dtype=np.uint8)
    values[present] = flat.reshape(int(present.sum()), width)
    return values


def _entries(name: str, column: pa.Array) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Returns the heads and values of the entries of a column of texts, of integers, or of lists of any length.

    Both are null if the value is missing.
    """
    if pa.types.is_large_binary(column.type):
        column = column.cast(_BINARY)
    kind, values = _values(column)
    several = pa.types.is_large_list(column.type) and kind == _BYTES_LIST  # each value has its own tag
    lengths = null_where(column.is_null(), pc.binary_length(values)).dictionary_encode()
    heads = [_head(_key(name), kind, length, tagged=several) for length in lengths.dictionary.to_pylist()]
    head_of_row = pa.array(heads, type=_BINARY).take(lengths.indices)
    if values is not column:  # the column itself already has its nulls
        values = null_where(column.is_null(), values)
    return head_of_row, values


def _values(column: pa.Array) -> tuple[bytes, pa.BinaryArray]:
    """Returns the kind of a column's feature, and the bytes of its value in each row; arbitrary bytes for null."""
    if pa.types.is_large_list(column.type):
        return _list_values(column)
    if pa.types.is_binary(column.type):
        return _BYTES_LIST, column
    return _INT64_LIST, varints(column.fill_null(0).to_numpy(zero_copy_only=False))


def _list_values(column: pa.LargeListArray) -> tuple[bytes, pa.BinaryArray]:
    """Returns the kind of the elements, and the elements of each row: packed numbers, or texts each with its tag."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    flat = column.flatten()
    if pa.types.is_float32(flat.type):
        data = flat.to_numpy(zero_copy_only=False).astype("<f4")
        return _FLOAT_LIST, _rows_of_bytes(4 * ends, pa.py_buffer(data))
    if pa.types.is_int64(flat.type):
        return _INT64_LIST, _rows_of_elements(ends, varints(flat.to_numpy(zero_copy_only=False)))
    sizes = varints(pc.binary_length(flat).to_numpy(zero_copy_only=False))
    tagged = joined_rows([pa.scalar(_LIST_VALUE, _BINARY), sizes, flat.cast(_BINARY)], "", null="")
    return _BYTES_LIST, _rows_of_elements(ends, tagged)


def _rows_of_elements(ends: np.ndarray, elements: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the bytes of the elements of each row; `ends` counts elements."""
    _, offsets, data = elements.buffers()
    return _rows_of_bytes(np.frombuffer(offsets, np.int32)[ends], data or pa.py_buffer(b""))


def _rows_of_bytes(ends: np.ndarray, data: pa.Buffer) -> pa.BinaryArray:
    return pa.BinaryArray.from_buffers(_BINARY, len(ends) - 1, [None, pa.py_buffer(ends.astype(np.int32)), data])


def _key(name: str) -> bytes:
    return _KEY + _varint(len(name.encode())) + name.encode()


def _head(key: bytes, kind: bytes, length: int, *, tagged: bool = False) -> bytes:
    """Returns an entry's bytes before a value of `length` bytes; `tagged` if the value already contains its tags."""
    value = b"" if tagged else _LIST_VALUE + _varint(length)
    feature = kind + _varint(len(value) + length) + value
    entry = key + _VALUE + _varint(len(feature) + length) + feature
    return _ENTRY + _varint(len(entry) + length) + entry


def _varint(number: int) -> bytes:
    low = bytearray()
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])


def _binary(matrix: np.ndarray, sizes: np.ndarray, used: np.ndarray | None = None) -> pa.BinaryArray:
    """Returns the used bytes of each row of a uint8 matrix as a binary array."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.ascontiguousarray(matrix if used is None else matrix[used])
    return pa.BinaryArray.from_buffers(_BINARY, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
