"""Reads values of JSON as the inputs of a signature, with the rules and the messages of TensorFlow Serving.

Source: tensorflow_serving/util/json_tensor.cc. Clients match on these messages, so they are the same. Where a request
has several mistakes, another one may be named.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_SHOWN = 256
"""Characters after which a value in a message is cut."""
_NAMES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number", type(None): "Null"}
_OF_TENSORFLOW = {"float32": "float", "float64": "double", "object": "string"}
"""Names of dtypes that TensorFlow calls otherwise than NumPy."""
_ACCEPTED: Mapping[str, set[type]] = {"f": {int, float}, "i": {int}, "u": {int}, "b": {bool}, "O": {str}}
"""Kind of a dtype -> the types of JSON values that it takes."""
ABSENT = object()
"""Stands for the cell of a row that does not name the input."""


class RefusedRequest(Exception):
    """A request that is not answered; its text is for the client."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Input:
    """An input of a signature.

    Attributes:
        dtype: `object` for bytes.
        shape: Size of each dimension, None where it is free.
        optional: Whether a request may leave it out; its values are missing then.
    """

    dtype: np.dtype
    shape: Sequence[int | None]
    optional: bool = False

    def missing(self, rows: int) -> np.ndarray:
        """Returns the input of rows without a value, as `serving_raw` takes it."""
        return np.full([rows, *(size or 0 for size in self.shape[1:])], self.absent, self.dtype)

    @property
    def absent(self) -> Any:
        """The value that stands for a missing one."""
        return b"" if self.dtype.kind == "O" else np.nan


def column_of_cells(name: str, cells: Sequence[Any], declared: Input) -> np.ndarray | None:
    """Returns the cells of rows as one array; None if all of them are absent.

    Raises:
        RefusedRequest: A cell has another type or shape than it should.
    """
    if set(map(type, cells)) <= _ACCEPTED[declared.dtype.kind]:  # the usual case, without a call per cell
        return _array(name, list(cells), (len(cells),), declared)
    arrays: list[np.ndarray | None] = []
    shape: tuple[int, ...] | None = None
    for number, cell in enumerate(cells):
        try:
            arrays.append(None if cell is ABSENT else tensor(name, cell, declared))
            shape = _same_shape(shape, arrays[-1])
        except RefusedRequest as error:
            where = f"element: {number} key: {name}" if name else f"element: {number}"
            raise RefusedRequest(
                f"Failed to process {where} of 'instances' list. Error: INVALID_ARGUMENT: {error}"
            ) from error
    if shape is None:
        return None
    found = np.empty((len(cells), *shape), declared.dtype)
    for number, array in enumerate(arrays):
        found[number, ...] = declared.absent if array is None else array
    return found


def tensor(name: str, value: Any, declared: Input) -> np.ndarray:
    """Returns a value, which may be nested lists, as an array.

    Raises:
        RefusedRequest: It has another type than it should, or its lists differ in length.
    """
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    return _array(name, list(_leaves(value, 0, shape, declared.dtype)), shape, declared)


def _array(name: str, flat: list[Any], shape: Sequence[int], declared: Input) -> np.ndarray:
    if declared.dtype.kind == "O":
        flat = [one if isinstance(one, bytes) else _utf8(one) for one in flat]
    found = np.empty(len(flat), declared.dtype)
    try:
        with np.errstate(over="ignore"):
            found[:] = flat
    except OverflowError:
        raise RefusedRequest(f"input {name!r}: a number is too large for {_dtype_name(declared.dtype)}") from None
    return found.reshape(shape)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # bytes of the body that are not UTF-8 stay as they are
    except UnicodeEncodeError:
        raise RefusedRequest("JSON Parse error: The surrogate pair in string is invalid.") from None


def _same_shape(shape: tuple[int, ...] | None, found: np.ndarray | None) -> tuple[int, ...] | None:
    if shape is None or found is None or shape == found.shape:
        return shape if found is None else found.shape
    if int(np.prod(shape)) != found.size:
        raise RefusedRequest(f"Expecting tensor size: {int(np.prod(shape))} but got: {found.size}")
    expected, got = (f"[{','.join(map(str, one))}]" for one in (shape, found.shape))
    raise RefusedRequest(f"Expecting shape {expected} but got: {got}")


def _leaves(value: Any, level: int, shape: Sequence[int], dtype: np.dtype) -> Iterator[Any]:
    """Yields the cells of nested lists in their order."""
    if not isinstance(value, list):
        if level != len(shape):
            raise RefusedRequest(
                f"JSON Value: {json_shown(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        yield _leaf(value, dtype)
        return
    if level >= len(shape):
        raise RefusedRequest(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise RefusedRequest(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for one in value:
        yield from _leaves(one, level + 1, shape, dtype)


def _leaf(value: Any, dtype: np.dtype) -> Any:
    if isinstance(value, dict) and dtype.kind == "O":
        if not is_bytes(value):
            raise RefusedRequest(f"JSON Value: {json_shown(value)} not formatted correctly for base64 data")
        try:
            text = value["b64"].rstrip("=")
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError:
            raise RefusedRequest("Unable to base64 decode") from None
    if type(value) not in _ACCEPTED[dtype.kind]:
        raise RefusedRequest(
            f"JSON Value: {json_shown(value)} Type: {type_name(value)} is not of expected type: {_dtype_name(dtype)}"
        )
    return value


def is_bytes(value: Any) -> bool:
    """Returns whether a value is bytes in base64: `{"b64": "..."}`."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def is_named(value: Any) -> bool:
    """Returns whether a value is an object with keys, and not bytes in base64."""
    return isinstance(value, dict) and not is_bytes(value)


def type_name(value: Any) -> str:
    """Returns the name that messages give to the type of a value."""
    return str(value) if isinstance(value, bool) else _NAMES[type(value)]


def _dtype_name(dtype: np.dtype) -> str:
    return _OF_TENSORFLOW.get(dtype.name, dtype.name)


def json_shown(value: Any) -> str:
    """Returns a value as a message shows it: objects with a line per key, and cut where it is long."""
    text = ""
    for piece in _pieces(value, 0):
        if len(text) >= _MOST_SHOWN:
            break
        text += piece
    return text


def _pieces(value: Any, depth: int) -> Iterator[str]:
    inner, outer = "\n" + " " * 4 * (depth + 1), "\n" + " " * 4 * depth
    match value:
        case dict() if value:
            for number, (key, one) in enumerate(value.items()):
                yield f"{',' if number else '{'}{inner}{json.dumps(key, ensure_ascii=False)}: "
                yield from _pieces(one, depth + 1)
            yield f"{outer}}}"
        case list():
            yield "["
            for number, one in enumerate(value):
                yield ", " if number else ""
                yield from _pieces(one, depth + 1)
            yield "]"
        case _:
            yield json.dumps(value, ensure_ascii=False)
