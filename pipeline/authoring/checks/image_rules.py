"""Checks of images: the files of their encoders, and what mixup can blend."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.features.image_feature import ImageFeature, Pretrained


def check_pretrained(loaded: Loaded) -> Iterator[Finding]:
    """Weights of pretrained encoders are there."""
    for keys, feature in _images(loaded):
        encoder = feature.encoder
        if isinstance(encoder, Pretrained):
            path = Path(loaded.resolve(encoder.weights))
            if "://" not in encoder.weights and not path.is_file():
                yield Finding(
                    (*keys, "encoder", "pretrained", "weights"),
                    f"no file {path}. Write one where the weights may be had: "
                    f"keras.applications.{encoder.architecture}(include_top=False).save_weights(FILE).",
                )


def check_mixup(loaded: Loaded) -> Iterator[Finding]:
    """Examples are blended only where all that the model reads can be: images, decoded before the model."""
    blended = {name: feature for (_, name), feature in _images(loaded) if feature.augment and feature.augment.mixup}
    images = {name for (_, name), _ in _images(loaded)}
    config = loaded.config
    others = [*(name for name in config.features if name not in images), *(c.feature_name for c in config.crosses)]
    for name, feature in blended.items():
        keys: Keys = ("features", name, "augment", "mixup")
        if others:
            yield Finding(
                keys,
                f"blends whole examples, but {', '.join(others[:3])} cannot be blended: a category has nothing between "
                "two values. Remove mixup; flip, crop, cutout and the others remain.",
            )
        if feature.compute_at == "model":
            yield Finding(keys, "blends pixels, but the image is decoded in the model. Use compute_at: input.")
        if len({images_of.augment.mixup for images_of in blended.values() if images_of.augment}) > 1:
            yield Finding(keys, "blends examples, images and labels alike, so all images need the same number.")


def _images(loaded: Loaded) -> Iterator[tuple[tuple[str, str], ImageFeature]]:
    for name, feature in loaded.config.features.items():
        if isinstance(feature, ImageFeature):
            yield ("features", name), feature
