"""Represents encoded images as digests, so a sample of images can be checked like any other column."""

import hashlib
import struct

import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import is_binary
from fullpass.preprocessing.values.encoded_images import header_problem, image_shape

BROKEN = "broken: "
"""Prefix of the text of an unusable image; the reason follows."""
_NEARLY_ALL = 0.9
_LOOKED_AT = 200


def image_texts(cells: pa.Array) -> pa.Array:
    """Returns a digest of each image, or the reason why its header makes it unusable; null where missing.

    Args:
        cells: the cells of a reader: binary, or lists of one element as in tf.Examples. Other types are not images.
    """
    cells = _single(cells)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells = cells.cast(pa.binary())
    if not is_binary(cells.type):
        wrong = f"{BROKEN}{cells.type}, no bytes"
        return pa.array([wrong if cell.is_valid else None for cell in cells], pa.string())
    return pa.array([None if cell is None else _text(cell) for cell in cells.to_pylist()], pa.string())


def image_shapes(cells: pa.Array) -> list[tuple[int, int, int]]:
    """Returns height, width and channels of some images; empty if the column does not hold images.

    A column holds images if nearly all of its first 200 cells have the header of a format that TensorFlow decodes.

    Args:
        cells: the cells of a reader.
    """
    lists = pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type)
    if lists and (pc.max(pc.list_value_length(cells)).as_py() or 0) > 1:
        return []
    cells = _single(cells)
    if not is_binary(cells.type):
        return []
    looked_at = cells.drop_null().slice(0, _LOOKED_AT).to_pylist()
    shapes = [shape for content in looked_at if (shape := _shape(content)) is not None]
    return shapes if looked_at and len(shapes) >= _NEARLY_ALL * len(looked_at) else []


def _shape(content: bytes) -> tuple[int, int, int] | None:
    try:
        return image_shape(content)
    except (struct.error, IndexError):
        return None


def _single(cells: pa.Array) -> pa.Array:
    """Returns the first elements of lists, and other cells unchanged."""
    if not (pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type)):
        return cells
    return pc.list_element(pc.if_else(pc.greater(pc.list_value_length(cells), 0), cells, None), 0)


def _text(content: bytes) -> str:
    problem = header_problem(content)
    return f"{BROKEN}{problem}" if problem else hashlib.sha256(content).hexdigest()[:32]
