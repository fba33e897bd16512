"""Reads serialized records of TFRecord files in batches that are bounded by rows and by bytes."""

from collections.abc import Iterator

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES, gather


def records(path: str) -> Iterator[bytes]:
    """Yields the serialized records of a TFRecord file in order.

    TensorFlow's plain iterator reads small records twice as fast as tf.data.

    Args:
        path: The path of the file; one that ends in .gz is decompressed.

    Raises:
        UserError: The file is damaged.
    """
    options = tf.io.TFRecordOptions(compression_type="GZIP" if path.endswith(".gz") else "")
    try:
        yield from tf.compat.v1.io.tf_record_iterator(path, options)
    except tf.errors.DataLossError as error:
        raise UserError(
            f"{path} is damaged: {error.message}. Run again: damaged output of a node is written again."
        ) from error


def record_batches(path: str, *, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[list[bytes]]:
    """Yields the records of a file in order, in lists that are as long as the bounds allow.

    A batch of tf.data is bounded by its number of rows only, which is gigabytes for records of a megabyte each.

    Args:
        path: The path of a TFRecord file; one that ends in .gz is decompressed.
        rows: The largest number of records of a batch.
        most_bytes: The largest size of a batch of more than one record.

    Raises:
        UserError: The file is damaged.
    """
    yield from gather(records(path), len, rows=rows, most_bytes=most_bytes)
