"""Encoded images as text that tells them apart, so that a sample of images is looked at like any other column."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.encoded_images import header_problem

BROKEN = "broken: "
"""Begins the text of an image that cannot be used; the reason follows."""


def image_texts(cells: pa.Array) -> pa.Array:
    """Returns a digest of each image, or why its header says that it cannot be used; null where missing.

    Args:
        cells: as a reader yields them: binary, or lists of one, as tf.Examples hold them; others are not images.
    """
    if pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type):
        cells = pc.list_element(pc.if_else(pc.greater(pc.list_value_length(cells), 0), cells, None), 0)
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells = cells.cast(pa.binary())
    if not (pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type)):
        wrong = f"{BROKEN}{cells.type}, no bytes"
        return pa.array([wrong if cell.is_valid else None for cell in cells], pa.string())
    return pa.array([None if cell is None else _text(cell) for cell in cells.to_pylist()], pa.string())


def _text(content: bytes) -> str:
    problem = header_problem(content)
    return f"{BROKEN}{problem}" if problem else hashlib.sha256(content).hexdigest()[:32]
