"""Encodes packed rows as the bytes of a block on disk, and decodes them without parsing.

An int64 header contains the number of bytes of each packed tensor. These tensors follow as they are in memory, in the
order of `Layout.parts`.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from fullpass.trainer.input.cache.blocks import Layout, Packed


def pack_bytes(layout: Layout, rows: Mapping[str, np.ndarray]) -> bytes:
    """Encodes packed rows as the content of a block file."""
    tensors = [part for key in layout.parts() for part in _stored(rows[key])]
    return np.array([len(tensor) for tensor in tensors], np.int64).tobytes() + b"".join(tensors)


@tf.autograph.experimental.do_not_convert
def unpack_bytes(layout: Layout, blocks: tf.Tensor) -> Packed:
    """Decodes the rows of block files.

    Args:
        layout: The layout of the rows.
        blocks: The content of block files, string [n].
    """
    parts = layout.parts()
    count = sum(2 if dtype == tf.string else 1 for dtype, _ in parts.values())
    sizes = tf.reshape(tf.io.decode_raw(tf.strings.substr(blocks, 0, 8 * count), tf.int64), [-1, count])
    starts = 8 * count + tf.cumsum(sizes, axis=1, exclusive=True)
    pieces = iter(
        tf.strings.reduce_join(tf.strings.substr(blocks, starts[:, index], sizes[:, index])) for index in range(count)
    )
    packed = {}
    for key, (dtype, shape) in parts.items():
        flat = _text(next(pieces), next(pieces)) if dtype == tf.string else tf.io.decode_raw(next(pieces), dtype)
        packed[key] = tf.reshape(flat, [-1, *shape])
    return packed


def _stored(value: np.ndarray) -> list[bytes]:
    """Returns the bytes of a tensor on disk; for text, the lengths of all strings, then the strings."""
    if value.dtype != object:
        return [value.tobytes()]
    strings = value.ravel().tolist()
    return [np.fromiter(map(len, strings), np.int64, len(strings)).tobytes(), b"".join(strings)]


def _text(lengths: tf.Tensor, joined: tf.Tensor) -> tf.Tensor:
    sizes = tf.io.decode_raw(lengths, tf.int64)
    return tf.strings.substr(joined[tf.newaxis], tf.cumsum(sizes, exclusive=True), sizes)
