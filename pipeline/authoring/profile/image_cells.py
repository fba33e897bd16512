"""Encoded images as text that tells them apart, so that a sample of images is looked at like any other column."""

import hashlib
import struct

import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import is_binary
from fullpass.preprocessing.values.encoded_images import header_problem, image_shape

BROKEN = "broken: "
"""Begins the text of an image that cannot be used; the reason follows."""
_NEARLY_ALL = 0.9
_LOOKED_AT = 200


def image_texts(cells: pa.Array) -> pa.Array:
    """Returns a digest of each image, or why its header says that it cannot be used; null where missing.

    Args:
        cells: as a reader yields them: binary, or lists of one, as tf.Examples hold them; others are not images.
    """
    cells = _single(cells)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells = cells.cast(pa.binary())
    if not is_binary(cells.type):
        wrong = f"{BROKEN}{cells.type}, no bytes"
        return pa.array([wrong if cell.is_valid else None for cell in cells], pa.string())
    return pa.array([None if cell is None else _text(cell) for cell in cells.to_pylist()], pa.string())


def image_shapes(cells: pa.Array) -> list[tuple[int, int, int]]:
    """Returns rows, columns and channels of some images; none where a column holds something else.

    A column holds images where nearly all of the first 200 cells begin as a file does that TensorFlow decodes.

    Args:
        cells: as a reader yields them.
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
    """Returns lists as their first elements, and other cells as they are."""
    if not (pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type)):
        return cells
    return pc.list_element(pc.if_else(pc.greater(pc.list_value_length(cells), 0), cells, None), 0)


def _text(content: bytes) -> str:
    problem = header_problem(content)
    return f"{BROKEN}{problem}" if problem else hashlib.sha256(content).hexdigest()[:32]
