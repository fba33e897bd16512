"""Checks of image features: the weight files of their encoders, and mixup."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.base.files import is_address
from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.features.image_feature import ImageFeature, Pretrained


def check_pretrained(loaded: Loaded) -> Iterator[Finding]:
    """The weights of pretrained encoders are existing local files: every build reads them for a digest."""
    for keys, feature in _images(loaded):
        encoder = feature.encoder
        if isinstance(encoder, Pretrained):
            path = loaded.resolve(encoder.weights)
            where: Keys = (*keys, "encoder", "pretrained", "weights")
            if is_address(path):
                yield Finding(
                    where, f"{path} is an address. Accepted: a local file. Copy the weights to one and give its path."
                )
            elif not Path(path).is_file():
                yield Finding(
                    where,
                    f"no file {path}. Create it on a machine that can download the weights: "
                    f"keras.applications.{encoder.architecture}(include_top=False).save_weights(FILE).",
                )


def check_mixup(loaded: Loaded) -> Iterator[Finding]:
    """Mixup needs a model that reads only images decoded before the model, since nothing else can be blended."""
    blended = {name: feature for (_, name), feature in _images(loaded) if feature.augment and feature.augment.mixup}
    images = {name for (_, name), _ in _images(loaded)}
    config = loaded.config
    others = [
        *(name for name in config.features if name not in images),
        *(cross.feature_name for cross in config.crosses),
        *(f"sequences.{name}" for name in config.sequences),
    ]
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
            yield Finding(keys, "blends whole examples, so mixup must be the same for all images.")


def _images(loaded: Loaded) -> Iterator[tuple[tuple[str, str], ImageFeature]]:
    for name, feature in loaded.config.features.items():
        if isinstance(feature, ImageFeature):
            yield ("features", name), feature
