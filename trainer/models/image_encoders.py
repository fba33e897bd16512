"""Encoders of images, one function each: normalised pixels [batch, h, w, c] -> vectors [batch, n]."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from fullpass.base.errors import UserError, did_you_mean, prefix_errors
from fullpass.base.user_modules import import_function, own_code
from fullpass.preprocessing.features.image_feature import Augment, Cnn, ImageFeature, Pretrained, UserEncoder
from fullpass.trainer.models.augment_images import AugmentImages
from fullpass.trainer.models.weight_axes import declare_axes

_LARGEST_STAGE = 48
"""Pixels of a side of the first stage at most; larger images are halved before."""
_SMALLEST_STAGE = 4
"""Pixels of a side of the last stage at least."""
_MAX_STAGES = 4
"""Stages at most; each but the first halves the side."""
_MOMENTUM = 0.9
"""Of the moving mean and variance; Keras's 0.99 needs more updates than a small data set has."""


class NormalizePixels(keras.layers.Layer):
    """pixels float32 [batch, h, w, c] -> float of the same shape: minus a mean and over a deviation per channel.

    Args:
        moments: Mean and deviation, float32 [2, c].
    """

    def __init__(self, moments: np.ndarray, **options):
        super().__init__(autocast=False, **options)
        self._first = moments

    def build(self, shape):
        self.moments = self.add_weight(shape=self._first.shape, dtype="float32", trainable=False, name="moments")
        self.moments.assign(self._first)

    def call(self, pixels):
        return keras.ops.cast((pixels - self.moments[0]) / self.moments[1], self.compute_dtype)


class AsTrained(keras.layers.Layer):
    """pixels [batch, h, w, c] -> [batch, n] by a network in inference mode, whatever the mode of the outer model.

    Keras passes the outer model's `training=True` to the layers of a functional model, even if that is called with
    `training=False`.
    """

    def __init__(self, network: keras.Model, **options):
        super().__init__(**options)
        self.network = network

    def call(self, pixels):
        return self.network(pixels, training=False)

    def compute_output_shape(self, shape):
        return self.network.compute_output_shape(shape)


def normalized(pixels: keras.KerasTensor, feature: ImageFeature, moments: np.ndarray, name: str) -> keras.KerasTensor:
    """Returns uint8 pixels as input of the encoder: augmented in training, then normalised.

    Args:
        pixels: uint8 [batch, h, w, c].
        moments: Mean and deviation per channel, float32 [2, c].
    """
    changed = AugmentImages(feature.augment or Augment(), moments[0], name=_layer_name("augment", name))(pixels)
    normalize = NormalizePixels(moments, name=_layer_name("pixels", name))
    return declare_axes(normalize, stable_name=f"pixels of {name}")(changed)


def encode_image(images: keras.KerasTensor, feature: ImageFeature, name: str) -> keras.KerasTensor:
    """Returns normalised images, [batch, h, w, c], as vectors [batch, n] by the feature's encoder.

    Raises:
        UserError: The encoder cannot be built.
    """
    return _ENCODERS[type(feature.encoder)](images, feature.encoder, name)


def cnn(images: keras.KerasTensor, config: Cnn, name: str) -> keras.KerasTensor:
    """Returns the output of a small residual network, averaged over all positions.

    Large images are halved until a side has at most 48 pixels. Each later stage halves them again, as long as at least
    4 pixels are left.
    """
    layers = _Named(name)
    side = -(-min(images.shape[1:3]) // config.stride)
    x = layers.convolution(images, config.width, stride=config.stride)
    while side > _LARGEST_STAGE:
        x = layers.convolution(layers.active(x), config.width, stride=2)
        side = -(-side // 2)
    for stage in range(_MAX_STAGES):
        if stage and side < 2 * _SMALLEST_STAGE:
            break
        side = -(-side // 2) if stage else side
        for block in range(config.blocks):
            x = _residual(layers, x, config.width * 2**stage, 2 if stage and not block else 1)
    x = keras.layers.GlobalAveragePooling2D()(layers.active(x))
    return keras.layers.Dropout(config.dropout)(x) if config.dropout else x


class _Named:
    """Builds layers whose names are the same in every model with this feature, so that a warm start finds them."""

    def __init__(self, feature: str):
        self._feature, self._made = feature, 0

    def convolution(self, x: keras.KerasTensor, width: int, *, stride: int = 1) -> keras.KerasTensor:
        layer = keras.layers.Conv2D(
            width, 3, stride, padding="same", use_bias=False, kernel_initializer="he_normal", name=self._next()
        )
        return self._declared(layer)(x)

    def projection(self, x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
        """Returns a 1 x 1 convolution with a stride, computed as a matrix product.

        The gradient of such a convolution with fewer than 16 channels writes out of bounds as soon as a batch is
        smaller than the previous one (oneDNN 3.3.4, which TensorFlow 2.16 contains).
        """
        layer = keras.layers.Dense(width, use_bias=False, kernel_initializer="he_normal", name=self._next())
        return self._declared(layer)(x[:, ::stride, ::stride])

    def active(self, x: keras.KerasTensor) -> keras.KerasTensor:
        norm = keras.layers.BatchNormalization(momentum=_MOMENTUM, name=self._next())
        return keras.layers.Activation("relu")(self._declared(norm)(x))

    def _next(self) -> str:
        self._made += 1
        return _layer_name(f"cnn_{self._made}", self._feature)

    def _declared(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        return declare_axes(layer, stable_name=f"cnn {self._made} of {self._feature}")


def _residual(layers: _Named, x: keras.KerasTensor, width: int, stride: int) -> keras.KerasTensor:
    active = layers.active(x)
    same = x.shape[-1] == width and stride == 1
    shortcut = x if same else layers.projection(active, width, stride)
    inner = layers.active(layers.convolution(active, width, stride=stride))
    return keras.layers.Add()([shortcut, layers.convolution(inner, width)])


def pretrained(images: keras.KerasTensor, config: Pretrained, name: str) -> keras.KerasTensor:
    """Returns the pooled output of a network of keras.applications, whose weights come from a file.

    Its normalisation layers always use the moments that they were trained with.

    Raises:
        UserError: There is no such network, it takes no images of this size, or the file does not hold its weights.
    """
    application = getattr(keras.applications, config.architecture, None)
    known = [key for key, value in vars(keras.applications).items() if callable(value)]
    if application is None or config.architecture not in known:
        raise UserError(
            f"features: encoder.pretrained.architecture: keras.applications has no {config.architecture!r}."
            f"{did_you_mean(config.architecture, known)} It has: {', '.join(sorted(known))}."
        )
    try:
        network = application(include_top=False, weights=None, input_shape=tuple(images.shape[1:]), pooling="avg")
        network.load_weights(config.weights)
    except Exception as error:  # readers of weights raise errors of any type
        raise UserError(
            f"features: encoder.pretrained: {config.architecture} for images of {tuple(images.shape[1:])} with the "
            f"weights of {config.weights}: {type(error).__name__}: {error}. Accepted: a file that "
            "`network.save_weights` wrote for this architecture without its top, and an image size that it supports."
        ) from error
    network.trainable = config.train == "fine_tune"
    prepare: Any = sys.modules[application.__module__].preprocess_input
    layer = AsTrained(network, name=_layer_name("pretrained", name))
    return declare_axes(layer, stable_name=f"pretrained {config.architecture} of {name}")(prepare(images))


def of_user(images: keras.KerasTensor, config: UserEncoder, name: str) -> keras.KerasTensor:
    """Returns the images encoded by a user-defined function.

    Raises:
        UserError: There is no such function, or it does not return a vector.
    """
    with prefix_errors("features: encoder.module.function"):
        function = import_function(config.function)
    with own_code(config.function, f"The images are {images.dtype} {images.shape}"):
        encoded = function(images, dict(config.options))
    if not isinstance(encoded, keras.KerasTensor) or len(encoded.shape) != 2 or encoded.shape[1] is None:
        received = getattr(encoded, "shape", type(encoded).__name__)
        raise UserError(f"{config.function} must return a Keras tensor [batch, n] for {name}. Received: {received}.")
    return encoded


_ENCODERS: Mapping[type, Callable[..., keras.KerasTensor]] = {Cnn: cnn, Pretrained: pretrained, UserEncoder: of_user}


def fine_tuned_variables(model: keras.Model, images: Mapping[str, ImageFeature]) -> dict[int, Pretrained]:
    """Returns the trained variables of fine-tuned networks by id, with the configuration of their encoder."""
    found: dict[int, Pretrained] = {}
    for name, feature in images.items():
        config = feature.encoder
        if isinstance(config, Pretrained) and config.train == "fine_tune":
            layer = model.get_layer(_layer_name("pretrained", name))
            found |= {id(variable): config for variable in layer.trainable_variables}
    return found


def _layer_name(what: str, feature: str) -> str:
    """Returns the name of a layer; it replaces `/`, which Keras forbids."""
    return f"{what}_{feature}".replace("/", "\N{DIVISION SLASH}")
