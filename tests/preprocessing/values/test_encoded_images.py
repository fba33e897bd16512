"""Invalid images are distinguished from valid ones, each with a reason."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from fullpass.components.ingest.readers.images import read_image
from fullpass.components.ingest.sources.config import ImagesSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
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


def gif(*frames, screen=(10, 10)):
    """Returns a GIF whose frames have these sizes, each with a comment before it, and no pixels."""
    content = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x80, 0, 0) + b"\0" * 6
    for width, height in frames:
        content += b"\x21\xfe\x03a;,\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0x81) + b"\0" * 12
        content += b"\x02\x02\x4c\x01\0"
    return content + b"\x3b"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gif((10, 10), (20_000, 20_000)), "a GIF with a frame of 400,000,000 pixels, above 64 million"),
        (gif(*[(4000, 4000)] * 50), "a GIF of 50 frames, in all above 256 million"),
        (gif((10, 10), screen=(60_000, 60_000)), "60,000 x 60,000 pixels"),
        (encoded("JPEG").replace(b"\xff\xc0\0\x11\x08\0\x07\0\x09", b"\xff\xc0\0\x11\x08\x1f\0\x1f\0")
         + b"\xff\xda\0\x02" * 20, "a JPEG of 21 scans"),
    ],
)  # fmt: skip
def test_an_image_that_takes_far_more_than_its_header_says_is_not_decoded(content, reason, tmp_path):
    assert reason in image_problem(content)
    (tmp_path / "x.img").write_bytes(content)
    with pytest.raises(ValueError, match="pixels"):
        read_image(str(tmp_path / "x.img"), ImagesSource(format="images", path="x"), decoded=False)


def test_usual_animations_are_no_bombs():
    frames = [Image.fromarray(np.full((300, 400, 3), 8 * n, np.uint8)) for n in range(30)]
    content = encode_image(np.zeros((300, 400, 3), np.uint8), "GIF", "P", save_all=True, append_images=frames)
    assert image_problem(content) is None


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
