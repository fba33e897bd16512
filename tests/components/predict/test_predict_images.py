"""Images as inputs of `predict`: images that cannot be decoded are bad rows, and outputs contain no images."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.components.predict.exported import Exported, TrainingRows
from fullpass.components.predict.predict import predict_table
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.image_files import encode_image

pytestmark = pytest.mark.integration


def encoded(value):
    return encode_image(np.full((2, 2), value, np.uint8))


def test_a_broken_picture_is_a_bad_row_and_pictures_are_left_out():
    def answer(image):
        return {"prediction": tf.stack([tf.reduce_mean(tf.cast(tf.io.decode_png(data), tf.float32)) for data in image])}

    model = Exported(
        directory=Path("m"), classes=(), levels=(), columns={"image": RawColumn("image", "string", image=True)},
        keys={"image": "image"}, training=TrainingRows({"format": "parquet"}), predict=answer,
    )  # fmt: skip
    table = pa.table({"image": pa.array([encoded(7), b"\x89PNG\xff", encoded(9)], pa.binary()), "id": [1, 2, 3]})
    found = pa.concat_tables(list(predict_table(model, table))).to_pylist()
    assert [row["prediction"] for row in found] == [7.0, None, 9.0]
    assert found[1]["id"] == 2 and "no JPEG" in found[1]["bad_row"] and "image" not in found[0]
