"""Images become pixels as Pillow and hand-worked values say, wherever they are decoded."""

import io

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.integration

GREY = np.array([[0, 100], [200, 255]], np.uint8)
COLOUR = np.arange(2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 3) * 20


def encoded(pixels, form="PNG", mode=None):
    stream = io.BytesIO()
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(stream, form)
    return stream.getvalue()


def test_an_image_is_its_pixels_and_a_missing_one_is_black(assert_transform):
    files = [encoded(COLOUR), encoded(GREY), None, encoded(COLOUR, "BMP"), encoded(np.dstack([COLOUR, GREY]))]
    grey_in_three = np.repeat(GREY[:, :, None], 3, axis=2)
    black = np.zeros_like(COLOUR)
    assert_transform(
        {"image": {"type": "image", "size": [2, 2]}},
        analyze={"image": files, "y": [1.0] * 5},
        expected={"image_xf": [v.tolist() for v in (COLOUR, grey_in_three, black, COLOUR, COLOUR)]},
    )


def test_colour_becomes_grey_by_its_luminance(assert_transform):
    luminance = np.round(COLOUR @ np.array([0.299, 0.587, 0.114]))[:, :, None]
    assert_transform(
        {"image": {"type": "image", "size": [2, 2], "channels": 1}},
        analyze={"image": [encoded(COLOUR), encoded(GREY)], "y": [1.0, 2.0]},
        expected={"image_xf": [luminance.tolist(), GREY[:, :, None].tolist()]},
    )


@pytest.mark.parametrize(
    ("resize", "expected"),
    [("stretch", [[5, 25], [5, 25]]), ("pad", [[0, 0], [5, 25]]), ("crop", [[10, 20], [10, 20]])],
)
def test_another_shape_is_brought_to_size(assert_transform, resize, expected):
    wide = np.array([[0, 10, 20, 30]] * 2, np.uint8)
    feature = {"type": "image", "size": [2, 2], "channels": 1, "resize": resize}
    found = assert_transform({"image": feature}, analyze={"image": [encoded(wide)], "y": [1.0]}, expected={})
    pixels = np.array(found.applied["image_xf"][0])[:, :, 0]
    if resize == "pad":  # one row of two is left, in whichever half
        assert sorted(pixels.sum(axis=1).tolist()) == [0, 30]
    else:
        np.testing.assert_allclose(pixels, expected, atol=3)


def test_pixels_are_taken_as_they_are(assert_transform):
    numbers = [float(value) for value in COLOUR.ravel()]
    assert_transform(
        {"image": {"type": "image", "column": "pixels", "pixels": [2, 2, 3], "size": [2, 2]}},
        analyze={"pixels": [numbers, None], "y": [1.0, 2.0]},
        expected={"image_xf": [COLOUR.tolist(), np.zeros_like(COLOUR).tolist()]},
    )
