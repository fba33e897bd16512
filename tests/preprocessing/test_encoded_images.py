"""Invalid images are distinguished from valid ones, each with a reason."""

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from fullpass.preprocessing.features.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.encoded_images import image_problem, image_shape
from fullpass.preprocessing.values.raw_text import RawText
from tests.image_files import encode_image, png_header

pytestmark = pytest.mark.integration

COLOUR = np.random.default_rng(0).integers(0, 255, (7, 9, 3), dtype=np.uint8)


def encoded(form, mode="RGB", **options):
    return encode_image(COLOUR, form, mode, **options)


@pytest.mark.parametrize(
    ("form", "mode", "channels"),
    [("PNG", "RGB", 3), ("PNG", "L", 1), ("PNG", "LA", 2), ("PNG", "RGBA", 4), ("PNG", "P", 3), ("PNG", "1", 1),
     ("JPEG", "RGB", 3), ("JPEG", "L", 1), ("JPEG", "CMYK", 4), ("GIF", "P", 3), ("BMP", "RGB", 3)],
)  # fmt: skip
def test_usual_images_are_no_problem(form, mode, channels):
    content = encoded(form, mode)
    assert image_shape(content) == (7, 9, channels)
    assert image_problem(content) is None


def test_of_an_animation_the_first_picture_counts():
    frames = [Image.fromarray(COLOUR[::-1].copy())] * 3
    assert image_problem(encoded("GIF", save_all=True, append_images=frames)) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "0 bytes"),
        (b"hello", "no JPEG, PNG, GIF or BMP"),
        (encoded("TIFF"), "no JPEG, PNG, GIF or BMP"),
        (encoded("PNG")[:20], "with a truncated header"),
        (encoded("PNG")[:100], "cannot be decoded: Invalid PNG data"),
        (encoded("JPEG")[:-150], "cannot be decoded"),
        (encoded("BMP")[:-9], "cannot be decoded"),
        (png_header(10_000, 10_000), "10,000 x 10,000 pixels, above 64 million"),
        (png_header(5, 0), "5 x 0 pixels"),
    ],
)
def test_each_broken_image_has_its_reason(content, reason):
    assert reason in image_problem(content)


def test_a_column_of_images_has_one_bad_row_for_each_broken_one():
    cells = pa.array([encoded("PNG"), b"\xff\xfe", None, b"", encoded("JPEG")], pa.binary())
    converted = convert_raw(cells, RawColumn("image", "string", image=True), RawText(missing=("",)))
    assert converted.bad.tolist() == [False, True, False, True, False]
    assert converted.reason_of(1).startswith("no JPEG") and converted.reason_of(3) == "an image of 0 bytes"
    assert converted.flat.to_pylist()[2] is None


def test_a_damaged_jpeg_is_a_problem_where_it_cannot_be_decoded_whole():
    import tensorflow as tf

    draw = np.random.default_rng(3)
    whole = [encoded("JPEG", mode, progressive=progressive) for mode in ("RGB", "L") for progressive in (True, False)]
    seen = {True: 0, False: 0}
    for number in range(200):
        content = bytearray(whole[number % 4])
        for place in draw.integers(0, len(content), draw.integers(0, 6)):
            content[place] = draw.integers(0, 256)
        content = bytes(content[: draw.choice([len(content), draw.integers(1, len(content))])])
        try:
            decodes = tf.io.decode_image(content, expand_animations=False).shape.rank == 3
        except tf.errors.OpError:
            decodes = False
        seen[decodes] += 1
        assert (image_problem(content) is None) == decodes
    assert min(seen.values()) > 40
