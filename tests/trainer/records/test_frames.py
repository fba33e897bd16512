"""Frames of TFRecord files, against TensorFlow's own writer."""

import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.trainer.records.frames import frames

RECORDS = [b"", b"a", b"trip-7", bytes(range(256)) * 300, b"b", "Ö".encode()]


@pytest.mark.parametrize("records", [RECORDS, [], [b""], RECORDS[::-1]])
def test_frames_are_those_of_tensorflow(records, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "expected")) as writer:
        for record in records:
            writer.write(record)
    expected = (tmp_path / "expected").read_bytes()
    assert frames(pa.array(records, pa.binary())) == expected
    assert frames(pa.array([b"before", *records, b"after"], pa.binary()).slice(1, len(records))) == expected
