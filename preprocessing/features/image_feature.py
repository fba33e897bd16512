"""Image features: decoding, augmentation in training, and the network that reads them."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.features.base_feature import BaseFeature, ComputeAt
from fullpass.preprocessing.features.output import Output, transformed_name
from fullpass.preprocessing.spec import (
    Count,
    Fraction,
    ImportPath,
    Name,
    NonNegative,
    SelectedBy,
    Spec,
    TaggedSpec,
    tag_of,
)

Side = Annotated[int, Field(strict=True, ge=1, le=4096)]
Factor = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class Augment(Spec):
    """Random changes of images in training. Each image is changed anew in each epoch, on the training device.

    Eval, Parity and the export use unchanged images.
    """

    flip: Literal["horizontal", "vertical", "both"] | None = None
    """Mirrors half of the images; `both` mirrors in each of the two directions independently."""
    crop: Annotated[Fraction, Field(lt=1)] = 0.0
    """Shifts and magnifies: a window of at least `1 - crop` of each side, anywhere in the image, fills the image."""
    shift: Annotated[Fraction, Field(lt=1)] = 0.0
    """Moves the image by up to this share of its sides; the gap is filled with the nearest edge."""
    rotate: Annotated[float, Field(strict=True, ge=0, le=180)] = 0.0
    """Rotates by up to this many degrees in either direction."""
    brightness: Fraction = 0.0
    """Adds up to this share of the range of pixels, or its negative."""
    contrast: Annotated[Fraction, Field(lt=1)] = 0.0
    """Multiplies the difference between pixels and the image's mean by 1 - contrast to 1 + contrast."""
    cutout: Annotated[Fraction, Field(lt=1)] = 0.0
    """Fills a square of this share of the sides, anywhere in the image, with the mean of the train split."""
    mixup: Factor = 0.0
    """Blends image and label of an example with those of another one of its batch; the share is drawn from Beta(a, a)
    with this a, usually 0.2. Only if every feature is an image. Source: Zhang et al. 2018, mixup."""


class Constants(Spec):
    """Normalization by given numbers."""

    mean: tuple[float, ...] = Field(min_length=1)
    """Per channel, or one for all; pixels are 0 to 255."""
    deviation: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1)
    """Per channel, or one for all."""


class Cnn(TaggedSpec):
    """A small residual network: stages of two convolutions with a shortcut, each at half the previous resolution.

    Source: He et al. 2016, Identity Mappings in Deep Residual Networks.
    """

    tag: ClassVar[str] = "cnn"
    width: Count = 32
    """Channels of the first stage; they double with each stage, up to eight times this number."""
    stride: Literal[1, 2] = 1
    """Step of the first convolution. 2 halves both sides at once: a quarter of the operations, for many images."""
    blocks: Count = 1
    """Residual blocks per stage."""
    dropout: Annotated[Fraction, Field(lt=1)] = 0.2
    """Share of the final numbers that training drops."""


class Pretrained(TaggedSpec):
    """A network of keras.applications that starts from weights in a file. Nothing is downloaded."""

    tag: ClassVar[str] = "pretrained"
    architecture: Name
    """Its name in keras.applications, such as EfficientNetV2B0, MobileNetV2 or ResNet50."""
    weights: Name
    """File of the weights without the top, `.weights.h5` or `.h5`. A relative path is relative to the YAML's folder."""
    train: Literal["frozen", "fine_tune"] = "frozen"
    """frozen: its weights are not trained. fine_tune: they are frozen for `frozen_epochs`, then all are trained."""
    frozen_epochs: NonNegative = 3
    """With fine_tune: number of epochs in which only the layers after it are trained."""
    fine_tune_rate: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.1
    """With fine_tune: the learning rate of its weights, as a share of `training.learning_rate`."""


class UserEncoder(TaggedSpec):
    """An encoder of your own.

    Called as `function(images, options)` with a normalized float Keras tensor [batch, height, width, channels]; must
    return a tensor [batch, n].
    """

    tag: ClassVar[str] = "module"
    function: ImportPath
    """`package.module:function`; the module must be importable where the pipeline runs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the function unchanged."""


ImageEncoder = Annotated[Cnn | Pretrained | UserEncoder, SelectedBy()]


class ImageFeature(BaseFeature):
    """An image (docs/images.md). Raw: the bytes of a JPEG, PNG, GIF or BMP file, or `pixels`.

    Transformed: uint8 [batch, height, width, channels], 0 to 255; black if missing.
    """

    example: ClassVar[str] = """\
image: {type: image, size: [32, 32]}
photo: {type: image, column: jpeg, size: [64, 96], resize: crop, augment: {flip: horizontal}}
digit: {type: image, column: pixels, pixels: [28, 28, 1], size: [28, 28], channels: 1}
"""
    computed_by: ClassVar = "image.image"
    column_holds: ClassVar = "image"

    type: Literal["image"]
    size: tuple[Side, Side]
    """Rows and columns of pixels after resizing."""
    channels: Literal[1, 3] = 3
    """1: grey. 3: red, green, blue."""
    resize: Literal["stretch", "pad", "crop"] = "stretch"
    """For images of another shape: stretch, or keep the aspect ratio and pad with black, or crop evenly."""
    pixels: tuple[Side, Side, Literal[1, 3]] | None = None
    """The column holds lists of numbers from 0 to 255, by rows, in this shape: rows, columns, channels."""
    normalize: Literal["train", "none"] | Constants = "train"
    """train: by mean and deviation of each channel in train. none: 0 to 255, as pretrained encoders need."""
    encoder: ImageEncoder = Cnn()
    """Network that converts the image to a vector."""
    augment: Augment | None = None
    """Random changes in training."""
    compute_at: ComputeAt | None = "input"
    """Where it is decoded (docs/images.md)."""

    @model_validator(mode="before")
    @classmethod
    def _normalised_once(cls, value: Any) -> Any:
        # Runs before the fields are validated: the default of `normalize` depends on the encoder.
        if isinstance(value, Mapping) and tag_of(value.get("encoder")) == "pretrained" and "normalize" not in value:
            return {**value, "normalize": "none"}
        return value

    @model_validator(mode="after")
    def _fits(self) -> "ImageFeature":
        if isinstance(self.encoder, Pretrained):
            if self.channels != 3:
                raise ValueError("encoder: pretrained requires three channels. Remove channels: 1; grey is repeated.")
            if self.normalize != "none":
                raise ValueError("normalize: a pretrained encoder normalizes its inputs itself. Remove normalize.")
        if isinstance(self.normalize, Constants):
            for name, numbers in (("mean", self.normalize.mean), ("deviation", self.normalize.deviation)):
                if len(numbers) not in (1, self.channels):
                    raise ValueError(
                        f"normalize.{name}: one number, or one for each of {self.channels} channels. "
                        f"Received: {len(numbers)}."
                    )
        return self

    def column_types(self, name: str) -> dict[str, str]:
        """Returns column -> type: a vector of pixels, or an encoded image."""
        return {self.column or name: "image" if self.pixels is None else "vector"}

    def vector_size(self) -> int:
        """Returns the number of values of `pixels`."""
        return math.prod(self.pixels or ())

    def outputs(self, name: str) -> Iterator[Output]:
        """Yields its pixels."""
        yield Output(transformed_name(name), name, "image", image=self)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and channels after resizing."""
        return (*self.size, self.channels)
