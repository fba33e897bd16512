"""Packs rows into a few large tensors.

All dense features of one dtype are side by side in a matrix; ragged features are values and lengths. So the rows of a
batch are gathered with one operation per dtype instead of one per feature, and a block on disk is decoded without
parsing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, TypedDict

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT

_TSTRING, _INLINE = 24, 22
"""Bytes of a string object of TensorFlow, and bytes of text that it holds inside (tensorflow/tsl/platform/ctstring)."""
IMAGE_RANK = 4
"""Rank of a batch of pixels; no other transformed feature has it."""


Block = dict[str, tf.Tensor | tf.RaggedTensor]
"""PackedRows of transformed features by name: dense [rows, ...] or ragged [rows, (ids)]."""

Packed = dict[str, tf.Tensor]
"""PackedRows packed by a `Layout`: `dense/<dtype>` is [rows, width]; a ragged feature is `lengths/<feature>`, int64
[rows], and `values/<feature>`, [ids]."""


@dataclass(frozen=True)
class PackedColumn:
    """One transformed feature in a layout.

    Attributes:
        shape: The shape of one row; () for a number, and for a ragged feature.
        ragged: Whether the number of values varies by row.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    ragged: bool = False

    @property
    def width(self) -> int:
        """The number of values per row of a dense feature."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """How the features of a block are packed."""

    columns: tuple[PackedColumn, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the layout as JSON-compatible data for `from_json`."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: Sequence[Mapping[str, Any]]) -> "Layout":
        """Restores a layout from the data of `to_json`."""
        return cls(tuple(PackedColumn(**{**column, "shape": tuple(column["shape"])}) for column in columns))

    def pack(self, block: Block) -> Packed:
        """Packs the rows of a block."""
        packed = {}
        for dtype, columns in self._dense().items():
            parts = [_side_by_side(block, run) for run in _runs(columns)]
            packed[_matrix(dtype)] = parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)
        for column in self._ragged():
            value = block[column.name]
            packed[_lengths(column)] = tf.cast(value.row_lengths(), tf.int64)
            packed[_values(column)] = value.values
        return packed

    def pack_arrays(self, values: Mapping[str, np.ndarray], lengths: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Packs the rows of NumPy arrays.

        Args:
            values: Arrays by feature: [rows, ...] for a dense feature, all values [ids] for a ragged one.
            lengths: The number of values per row, int64 [rows], by ragged feature.
        """
        packed = {}
        for dtype, columns in self._dense().items():
            parts = [values[column.name].reshape(-1, column.width) for column in columns]
            packed[_matrix(dtype)] = np.concatenate(parts, axis=1)
        for column in self._ragged():
            packed |= {_lengths(column): lengths[column.name], _values(column): values[column.name]}
        return packed

    def unpack(self, packed: Packed) -> Block:
        """Returns packed rows by feature, in the order of the columns."""
        block: Block = {}
        for dtype, columns in self._dense().items():
            runs = _runs(columns)
            widths = [sum(column.width for column in run) for run in runs]
            for run, part in zip(runs, tf.split(packed[_matrix(dtype)], widths, axis=1), strict=True):
                block |= _split_run(part, run)
        for column in self._ragged():
            values, lengths = packed[_values(column)], packed[_lengths(column)]
            block[column.name] = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        return {column.name: block[column.name] for column in self.columns}

    def column(self, packed: Packed, name: str) -> np.ndarray:
        """Returns one dense feature of eager packed rows as a NumPy view, which is cheaper than an operation."""
        (wanted,) = (column for column in self.columns if column.name == name)
        together = self._dense()[wanted.dtype]
        first = sum(column.width for column in together[: together.index(wanted)])
        matrix = np.asarray(packed[_matrix(wanted.dtype)])
        return matrix[:, first : first + wanted.width].reshape(-1, *wanted.shape)

    def widths(self, packed: Packed) -> dict[str, int]:
        """Returns the maximum number of values per row, by ragged feature; `packed` is eager."""
        return {column.name: int(np.max(packed[_lengths(column)], initial=0)) for column in self._ragged()}

    def zeros(self, rows: int) -> Packed:
        """Returns rows of zeros; ragged features have no values."""
        sizes = {key: 0 if _are_values(key) else rows for key in self.parts()}
        return {key: tf.zeros([sizes[key], *shape], dtype) for key, (dtype, shape) in self.parts().items()}

    def parts(self) -> dict[str, tuple[tf.DType, tuple[int, ...]]]:
        """Returns the dtype of each packed tensor and its shape without the first dimension."""
        dense = {
            _matrix(dtype): (tf.as_dtype(dtype), (sum(column.width for column in columns),))
            for dtype, columns in self._dense().items()
        }
        lengths = {_lengths(column): (tf.int64, ()) for column in self._ragged()}
        values = {_values(column): (tf.as_dtype(column.dtype), ()) for column in self._ragged()}
        return {**dense, **lengths, **values}

    def _dense(self) -> dict[str, list[PackedColumn]]:
        dtypes = sorted({column.dtype for column in self.columns if not column.ragged})
        return {d: [column for column in self.columns if column.dtype == d and not column.ragged] for d in dtypes}

    def _ragged(self) -> list[PackedColumn]:
        return [column for column in self.columns if column.ragged]


def without_gaps(value: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Returns a transformed feature; a sparse one becomes ragged rows, which is its form in examples."""
    if not isinstance(value, tf.SparseTensor):
        return value
    return tf.RaggedTensor.from_value_rowids(value.values, value.indices[:, 0], value.dense_shape[0], validate=False)


def dense(value: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor:
    """Returns a transformed feature as a dense tensor; rows of several values are padded with 0 or empty text."""
    value = without_gaps(value)
    return value.to_tensor() if isinstance(value, tf.RaggedTensor) else value


def layout_of(block: Block) -> Layout:
    """Returns the layout of an eager block."""
    return Layout(tuple(_column(name, value) for name, value in block.items()))


def row_count(packed: Packed) -> tf.Tensor:
    """Returns the number of packed rows, int64 []."""
    return tf.shape(packed[row_key(packed)], out_type=tf.int64)[0]


def row_key(packed: Iterable[str]) -> str:
    """Returns the key of a packed tensor that has an element per row."""
    return next(key for key in packed if not _are_values(key))


class PackedRows:
    """Packed rows that are sliced or gathered many times: the starts of ragged rows are computed once."""

    def __init__(self, packed: Packed):
        """`packed` may be eager or symbolic."""
        self._packed = packed
        self._ragged = {
            key: tf.RaggedTensor.from_row_lengths(value, packed[_lengths_of(key)], validate=False)
            for key, value in packed.items()
            if _are_values(key)
        }

    def take(self, start: tf.Tensor | int, stop: tf.Tensor | int) -> Packed:
        """Returns the rows from `start` up to `stop`, or to the last."""
        taken = {key: value[start:stop] for key, value in self._packed.items()}
        for key, ragged in self._ragged.items():
            splits = ragged.row_splits
            last = tf.minimum(tf.cast(stop, tf.int64), tf.size(splits, tf.int64) - 1)
            taken[key] = ragged.values[splits[start] : splits[last]]
        return taken

    def gather(self, chosen: tf.Tensor) -> Packed:
        """Returns the rows with the indices `chosen`, int64 [n], in that order."""
        dense = {key: tf.gather(value, chosen) for key, value in self._packed.items() if key not in self._ragged}
        return dense | {key: tf.gather(ragged, chosen).values for key, ragged in self._ragged.items()}


def gather_arrays(packed: Mapping[str, np.ndarray], chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the rows of packed NumPy arrays with the indices `chosen`, int64 [n], in that order."""
    found = {}
    for key, value in packed.items():
        if _are_values(key):
            lengths = packed[_lengths_of(key)]
            starts, taken = np.cumsum(lengths) - lengths, lengths[chosen]
            ends = np.cumsum(taken)
            # For each value of the chosen rows, its index among all values.
            indices = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[chosen] - (ends - taken), taken)
            found[key] = value[indices]
        else:
            # Indexing takes four times as long.
            found[key] = value.take(chosen, axis=0)
    return found


def join(parts: Sequence[Packed]) -> Packed:
    """Returns the rows of all parts."""
    return {key: tf.concat([part[key] for part in parts], axis=0) for key in parts[0]}


def join_and_free(parts: list[Packed]) -> Packed:
    """Returns the rows of all parts and empties them, so that no tensor is in memory twice for long."""
    joined = {}
    for key in list(parts[0]):
        joined[key] = tf.concat([part.pop(key) for part in parts], axis=0)
    parts.clear()
    return joined


def shuffle(packed: Packed, seed: tf.Tensor) -> Packed:
    """Returns all rows in an order that depends on `seed` alone, int64 [2]."""
    order = tf.random.experimental.stateless_shuffle(tf.range(row_count(packed), dtype=tf.int64), seed=seed)
    return PackedRows(packed).gather(order)


def memory_bytes(packed: Packed) -> int:
    """Returns the bytes of eager rows in memory."""
    return sum(
        _text_bytes(value) if value.dtype == tf.string else value.shape.num_elements() * value.dtype.size
        for value in packed.values()
    )


def _text_bytes(text: tf.Tensor) -> int:
    """Returns the bytes of text: of each tstring, plus the length of those that do not fit into it."""
    lengths = tf.strings.length(text)
    return _TSTRING * text.shape.num_elements() + int(tf.reduce_sum(tf.where(lengths > _INLINE, lengths, 0)))


def _column(name: str, value: tf.Tensor | tf.RaggedTensor) -> PackedColumn:
    if isinstance(value, tf.RaggedTensor):
        return PackedColumn(name, value.dtype.name, ragged=True)
    return PackedColumn(name, value.dtype.name, tuple(value.shape[1:].as_list()))


def _runs(columns: Sequence[PackedColumn]) -> list[list[PackedColumn]]:
    """Returns the columns of a matrix in runs: adjacent scalar columns, the most common kind, form one run.

    One operation serves a whole run, and a graph of few operations takes half the time to trace and start.
    """
    runs: list[list[PackedColumn]] = []
    for plain, group in groupby(columns, key=lambda column: column.shape == ()):
        run = list(group)
        runs += [run] if plain else [[column] for column in run]
    return runs


def _side_by_side(block: Block, run: Sequence[PackedColumn]) -> tf.Tensor:
    """Returns the features of a run as [rows, width]."""
    values = [_shaped(block[column.name], column) for column in run]
    if run[0].shape == ():
        return tf.stack(values, axis=1)
    return values[0] if len(run[0].shape) == 1 else tf.reshape(values[0], [-1, run[0].width])


def _shaped(value: tf.Tensor, column: PackedColumn) -> tf.Tensor:
    return tf.ensure_shape(value, [None, *column.shape]) if value.shape.rank is None else value


def _split_run(matrix: tf.Tensor, run: Sequence[PackedColumn]) -> Block:
    """Returns the features of a run, from [rows, width]."""
    if run[0].shape == ():
        return dict(zip((column.name for column in run), tf.unstack(matrix, len(run), axis=1), strict=True))
    return {run[0].name: matrix if len(run[0].shape) == 1 else tf.reshape(matrix, [-1, *run[0].shape])}


def _matrix(dtype: str) -> str:
    return f"dense/{dtype}"


def _lengths(column: PackedColumn) -> str:
    return f"lengths/{column.name}"


def _values(column: PackedColumn) -> str:
    return f"values/{column.name}"


def _are_values(key: str) -> bool:
    return key.startswith("values/")


def _lengths_of(key: str) -> str:
    """Returns the key of the lengths of the rows whose values have the key `key`."""
    return "lengths/" + key.removeprefix("values/")


def pack_bytes(layout: Layout, rows: Mapping[str, np.ndarray]) -> bytes:
    """Encodes packed rows as the content of a file."""
    tensors = tensor_bytes(layout, rows)
    return np.array([len(tensor) for tensor in tensors], np.int64).tobytes() + b"".join(tensors)


def unpack_bytes(layout: Layout, content: bytes) -> dict[str, np.ndarray]:
    """Decodes the rows of the content of a file."""
    view, at = np.frombuffer(content, np.uint8), 8 * _tensors(layout)
    ends = at + np.cumsum(view[:at].view(np.int64))
    return rows_of_bytes(layout, np.split(view, [at, *ends])[1:-1])


def tensor_bytes(layout: Layout, rows: Mapping[str, np.ndarray]) -> list[bytes]:
    """Returns the bytes of all tensors of packed rows; those of more rows are those of some rows, joined."""
    return [part for key in layout.parts() for part in _stored(rows[key])]


def rows_of_bytes(layout: Layout, tensors: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
    """Returns packed rows of the bytes of all tensors, each uint8 [n]."""
    parts, packed = iter(tensors), {}
    for key, (dtype, shape) in layout.parts().items():
        flat = next(parts)
        flat = _text(flat, next(parts)) if dtype == tf.string else flat.view(dtype.as_numpy_dtype)
        packed[key] = flat.reshape(-1, *shape)
    return packed


def _tensors(layout: Layout) -> int:
    return sum(2 if dtype == tf.string else 1 for dtype, _ in layout.parts().values())


def _stored(value: np.ndarray) -> list[bytes]:
    """Returns the bytes of a tensor on disk; for text, the lengths of all strings, then the strings."""
    if value.dtype != object:
        return [value.tobytes()]
    strings = value.ravel().tolist()
    return [np.fromiter(map(len, strings), np.int64, len(strings)).tobytes(), b"".join(strings)]


def _text(lengths: np.ndarray, joined: np.ndarray) -> np.ndarray:
    ends, content = np.cumsum(lengths.view(np.int64)).tolist(), joined.tobytes()
    strings = np.empty(len(ends), object)
    strings[:] = [content[first:last] for first, last in zip([0, *ends], ends, strict=False)]
    return strings


def pack_weighted(layout: Layout, block: Block) -> Packed:
    """Returns the rows of a block whose weight is not 0, packed."""
    packed, used = layout.pack(block), block[EXAMPLE_WEIGHT] > 0
    return tf.cond(
        tf.reduce_all(used),
        lambda: {key: tf.identity(value) for key, value in packed.items()},
        lambda: PackedRows(packed).gather(tf.where(used)[:, 0]),
    )


class Chunk(TypedDict):
    """The rows of one parse call.

    Keys:
        packed: The rows of a weight above 0.
        rows: The number of all rows, int64 [].
        finite: Whether all numbers that the model reads are finite, bool [].
    """

    packed: Packed
    rows: tf.Tensor
    finite: tf.Tensor
