"""The pixels of images equal those of Pillow or hand-computed values, wherever the images are decoded."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.image_files import encode_image as encoded

pytestmark = pytest.mark.integration

GREY = np.array([[0, 100], [200, 255]], np.uint8)
COLOUR = np.arange(2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 3) * 20


def test_an_image_is_its_pixels_and_a_missing_one_is_black(assert_transform):
    files = [encoded(COLOUR), encoded(GREY), None, encoded(COLOUR, "BMP"), encoded(np.dstack([COLOUR, GREY]))]
    later = [Image.fromarray(255 - GREY)] * 2
    files.append(encoded(GREY, "GIF", save_all=True, append_images=later))  # the first frame of an animation counts
    grey_in_three = np.repeat(GREY[:, :, None], 3, axis=2)
    black = np.zeros_like(COLOUR)
    assert_transform(
        {"image": {"type": "image", "size": [2, 2]}},
        analyze={"image": files, "y": [1.0] * 6},
        expected={"image_xf": [v.tolist() for v in (COLOUR, grey_in_three, black, COLOUR, COLOUR, grey_in_three)]},
    )


def test_colour_becomes_grey_by_its_luminance(assert_transform):
    luminance = np.round(COLOUR @ np.array([0.299, 0.587, 0.114]))[:, :, None]
    assert_transform(
        {"image": {"type": "image", "size": [2, 2], "channels": 1}},
        analyze={"image": [encoded(COLOUR), encoded(GREY)], "y": [1.0, 2.0]},
        expected={"image_xf": [luminance.tolist(), GREY[:, :, None].tolist()]},
    )


def test_a_jpeg_in_cmyk_has_its_colours(assert_transform):
    flat = np.full((8, 8, 3), (200, 40, 10), np.uint8)
    feature = {"type": "image", "size": [8, 8]}
    found = assert_transform(
        {"image": feature}, analyze={"image": [encoded(flat, "JPEG", "CMYK")], "y": [1.0]}, expected={}
    )
    np.testing.assert_allclose(found.applied["image_xf"][0], flat, atol=2)


@pytest.mark.parametrize(
    ("resize", "expected"),
    [("stretch", [[5, 25], [5, 25]]), ("pad", [[0, 0], [5, 25]]), ("crop", [[10, 20], [10, 20]])],
)
def test_another_shape_is_brought_to_size(assert_transform, resize, expected):
    wide = np.array([[0, 10, 20, 30]] * 2, np.uint8)
    feature = {"type": "image", "size": [2, 2], "channels": 1, "resize": resize}
    found = assert_transform({"image": feature}, analyze={"image": [encoded(wide)], "y": [1.0]}, expected={})
    pixels = np.array(found.applied["image_xf"][0])[:, :, 0]
    if resize == "pad":  # one of the two rows remains, in either half
        assert sorted(pixels.sum(axis=1).tolist()) == [0, 30]
    else:
        np.testing.assert_array_equal(pixels, expected)


def test_an_image_that_is_too_large_becomes_the_mean_of_its_areas(assert_transform):
    """Also for a JPEG decoded at 1/2, 1/4 or 1/8 of its size: the mean equals that of all of Pillow's pixels."""
    soft = Image.fromarray(np.random.default_rng(3).integers(0, 256, (5, 6, 3), dtype=np.uint8))
    given = [soft.resize((12 * n, 10 * n), Image.Resampling.BICUBIC) for n in (1, 3, 4, 8, 16)]
    files = [encoded(np.asarray(image)) for image in given]
    files += [encoded(np.asarray(image), "JPEG", quality=90, subsampling=0) for image in given]
    found = assert_transform(
        {"image": {"type": "image", "size": [10, 12]}}, analyze={"image": files, "y": [1.0] * len(files)}, expected={}
    )
    for file, pixels in zip(files, found.applied["image_xf"], strict=True):
        whole = np.asarray(Image.open(io.BytesIO(file)), np.float64)
        n = len(whole) // 10
        mean = whole.reshape(10, n, 12, n, 3).mean(axis=(1, 3))
        # TensorFlow's JPEG decoder rounds differently from Pillow's, even without downscaling.
        np.testing.assert_allclose(pixels, mean, atol=6.5 if file.startswith(b"\xff\xd8") else 0.51)
        assert np.abs(np.array(pixels) - mean).mean() < 1.5


def test_pixels_are_taken_as_they_are(assert_transform):
    numbers = [float(value) for value in COLOUR.ravel()]
    assert_transform(
        {"image": {"type": "image", "column": "pixels", "pixels": [2, 2, 3], "size": [2, 2]}},
        analyze={"pixels": [numbers, None], "y": [1.0, 2.0]},
        expected={"image_xf": [COLOUR.tolist(), np.zeros_like(COLOUR).tolist()]},
    )
