"""Reads NumPy .npy and .npz files by ranges of rows, so no array has to fit into memory."""

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.readable import readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import BATCH_ROWS, Reading, Rows, select_rows
from fullpass.components.ingest.sources.config import NumpySource
from fullpass.components.ingest.sources.storage import open_raw
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES

_PLAIN = "data"
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class _Array:
    """An array in a file, with rows along its first axis. stream: positioned at the first unread row."""

    stream: IO[bytes]
    rows: int
    row_shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize

    def read(self, rows: int) -> np.ndarray:
        """Returns the next rows."""
        data = self.stream.read(rows * self.row_bytes)
        if len(data) < rows * self.row_bytes:
            raise ValueError("the file ends inside the array")
        return np.frombuffer(data, self.dtype).reshape(rows, *self.row_shape)


class NumpyReader(FileReader[NumpySource]):
    def columns(self) -> list[str]:
        with _opened(self._path) as arrays:
            return [name for key, array in arrays.items() for name in self._names(key, array)]

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        with _opened(self._path) as arrays:
            total = next(iter(arrays.values())).rows
            row_bytes = sum(array.row_bytes for array in arrays.values())
            step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(row_bytes, 1)))
            for start in range(0, total, step):
                count = min(step, total - start)
                columns: dict[str, pa.Array] = {}
                for key, array in arrays.items():
                    columns |= self._columns(key, array, array.read(count))
                yield select_rows(pa.table(columns), np.arange(start + 1, start + 1 + count, dtype=np.int64), reading)

    def _names(self, key: str, array: _Array) -> list[str]:
        if array.dtype.names:
            return list(array.dtype.names) if key == _PLAIN else [f"{key}.{name}" for name in array.dtype.names]
        given = self._source.columns
        if key != _PLAIN or given is None:
            return [key]
        if len(array.row_shape) != 1 or len(given) != array.row_shape[0]:
            width = "x".join(map(str, array.row_shape)) or "1"
            raise UserError(
                f"{self._path}: data.source.columns names {len(given)} columns, but a row of the array is "
                f"{width} numbers."
            )
        return list(given)

    def _columns(self, key: str, array: _Array, values: np.ndarray) -> dict[str, pa.Array]:
        names = self._names(key, array)
        if array.dtype.names:
            return {name: _arrow(values[field]) for name, field in zip(names, array.dtype.names, strict=True)}
        if key == _PLAIN and self._source.columns is not None:
            return {name: _arrow(values[:, i]) for i, name in enumerate(names)}
        return {key: _arrow(values)}


@contextmanager
def _opened(path: str) -> Iterator[dict[str, _Array]]:
    """Opens the arrays of a file, by name. The array of a .npy file has the name data."""
    with ExitStack() as stack:
        with readable(path):
            arrays = _headers(path, stack)
        if not arrays:
            raise UserError(f"{path}: no arrays in the file.")
        if len({array.rows for array in arrays.values()}) > 1:
            counts = ", ".join(f"{name} {array.rows:,}" for name, array in arrays.items())
            raise UserError(f"{path}: the arrays must have equally many rows. Received: {counts}.")
        yield arrays


def _headers(path: str, stack: ExitStack) -> dict[str, _Array]:
    raw = stack.enter_context(open_raw(path))
    is_zip = raw.read(len(_ZIP)) == _ZIP
    raw.seek(0)
    if not is_zip:
        return {_PLAIN: _header(path, _PLAIN, raw)}
    archive = stack.enter_context(zipfile.ZipFile(raw))
    names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    return {name: _header(path, name, stack.enter_context(archive.open(f"{name}.npy"))) for name in names}


def _header(path: str, name: str, stream: IO[bytes]) -> _Array:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise UserError(f"{path}: array {name} has the format version {version}; 1.0 and 2.0 are read.")
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject:
        raise UserError(f"{path}: array {name} holds Python objects. Save it with a plain dtype (str, float32, ...).")
    if not shape:
        raise UserError(f"{path}: array {name} is a single value, not rows.")
    if by_columns and len(shape) > 1:
        raise UserError(f"{path}: array {name} lies in Fortran order. Save numpy.ascontiguousarray(array).")
    return _Array(stream, shape[0], tuple(shape[1:]), dtype)


def _arrow(values: np.ndarray) -> pa.Array:
    """Returns rows of numbers or text as an Arrow array; rows of several values are lists, in row-major order."""
    if values.ndim > 1:
        width = int(np.prod(values.shape[1:]))
        return pa.FixedSizeListArray.from_arrays(_arrow(np.ascontiguousarray(values).reshape(-1)), width)
    values = np.ascontiguousarray(values)
    if values.dtype.byteorder == ">" or (values.dtype.byteorder == "=" and np.little_endian is False):
        values = values.astype(values.dtype.newbyteorder("="))
    return pa.array(values)
