"""Images change at random only in training, within the declared limits, and reproducibly by seed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.preprocessing.features.image_feature import Augment
from fullpass.trainer.models.augment_images import AugmentImages

pytestmark = pytest.mark.integration

IMAGES = np.random.default_rng(1).integers(0, 256, (32, 6, 8, 3), dtype=np.uint8)
EVERYTHING = {
    "flip": "both",
    "crop": 0.2,
    "shift": 0.1,
    "rotate": 20.0,
    "brightness": 0.1,
    "contrast": 0.2,
    "cutout": 0.3,
}


def changed(images=IMAGES, *, training=True, fill=0.0, **options):
    keras.utils.set_random_seed(7)
    layer = AugmentImages(Augment(**options), np.full(images.shape[-1], fill))
    return layer(tf.constant(images), training=training).numpy()


def test_nothing_changes_outside_training():
    np.testing.assert_array_equal(changed(training=False, **EVERYTHING), IMAGES.astype(np.float32))


def test_the_same_seed_gives_the_same_images():
    np.testing.assert_array_equal(changed(**EVERYTHING), changed(**EVERYTHING))


def test_about_half_of_the_images_are_mirrored():
    found, mirror = changed(flip="horizontal"), IMAGES[:, :, ::-1]
    mirrored = [np.array_equal(a, b) for a, b in zip(found, mirror, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(found, IMAGES, strict=True)]
    assert sum(mirrored) + sum(same) == len(IMAGES) and 6 < sum(mirrored) < 26


def test_a_shift_moves_the_picture_and_repeats_its_edge():
    ramp = np.tile(np.arange(8, dtype=np.uint8)[None, None, :, None] * 10, (16, 6, 1, 1))
    rows = changed(ramp, shift=0.25)[:, 0, :, 0]
    offsets = rows[:, 4] - 40  # pixel values differ by ten, and a shift is at most a quarter of 8 pixels
    assert np.abs(offsets).max() <= 20 and np.ptp(offsets) > 5
    np.testing.assert_allclose(rows, np.clip(np.arange(8) * 10 + offsets[:, None], 0, 70), atol=1e-3)


def test_brightness_and_contrast_keep_to_their_bounds():
    flat = np.full((64, 2, 2, 1), 100, np.uint8)
    added = changed(flat, brightness=0.1)[:, 0, 0, 0] - 100
    assert np.abs(added).max() <= 25.5 and np.ptp(added) > 25
    two = np.tile(np.array([[90, 110]], np.uint8)[None, :, :, None], (64, 1, 1, 1))
    apart = np.ptp(changed(two, contrast=0.5)[:, 0, :, 0], axis=1)
    assert apart.min() >= 10 and apart.max() <= 30 and np.ptp(apart) > 10


def test_cutout_fills_a_square_with_the_mean():
    found = changed(np.full((16, 8, 8, 1), 200, np.uint8), cutout=0.5, fill=50.0)
    cut = (found == 50).sum(axis=(1, 2, 3))
    assert set(np.unique(found)) == {50, 200} and cut.max() <= 16 and cut.min() >= 4


def test_xla_compiles_all_of_it():
    layer = AugmentImages(Augment(**EVERYTHING), np.zeros(3))
    run = tf.function(lambda images: layer(images, training=True), jit_compile=True)
    assert run(tf.constant(IMAGES)).shape == IMAGES.shape
