"""tf.Examples of plain values, TFRecord files of them, and what such files hold by TensorFlow's own reader."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def example(row: Mapping[str, Any]) -> bytes:
    """Returns a serialized tf.Example with the values of a row, each one value, a list or an array.

    Texts and bytes become a bytes list, int values an int64 list, others a float list. A column with None is left out.
    """
    import numpy as np
    import tensorflow as tf

    features = tf.train.Features()
    for name, value in row.items():
        if value is None:
            continue
        values = np.ravel(value) if isinstance(value, np.ndarray) else value if isinstance(value, list) else [value]
        feature = features.feature[name]
        if len(values) and isinstance(values[0], str | bytes):
            feature.bytes_list.value.extend(one.encode() if isinstance(one, str) else one for one in values)
        elif len(values) and isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            feature.float_list.value.extend(values)
    return tf.train.Example(features=features).SerializeToString()


def write_records(path: Path | str, records: Iterable[bytes], compression: str | None = None) -> str:
    """Writes a TFRecord file and returns its path. compression: "GZIP" or ""; by default that of the name's ending."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), _compression(path) if compression is None else compression) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def read_records(*paths: Path | str) -> Iterator[bytes]:
    """Yields the records of TFRecord files, which are compressed if their names end in `.gz`."""
    import tensorflow as tf

    for path in paths:
        for batch in tf.data.TFRecordDataset(str(path), _compression(path)).batch(4096):
            yield from batch.numpy()


def read_examples(*paths: Path | str) -> Iterator[Any]:
    """Yields the features of the tf.Examples of TFRecord files, by name."""
    import tensorflow as tf

    return (tf.train.Example.FromString(record).features.feature for record in read_records(*paths))


def record_offsets(content: bytes) -> list[int]:
    """Returns where each record of an uncompressed TFRecord file begins: length, checksum, content, checksum."""
    found, offset = [], 0
    while offset < len(content):
        found.append(offset)
        offset += struct.unpack_from("<Q", content, offset)[0] + 16
    return found


def _compression(path: Path | str) -> str:
    return "GZIP" if str(path).endswith(".gz") else ""
