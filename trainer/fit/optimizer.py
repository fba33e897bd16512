"""Optimizers and the learning rate over time."""

import math
from typing import Any

import keras
import tensorflow as tf

from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.internals.keras_internals import adam_moments

_REDUCTIONS = 2
"""How often the learning rate is reduced while the validation rows do not improve."""
_REDUCTION_FACTOR = 0.2
"""What the learning rate is multiplied with each time."""
_MOST_IMAGES = 128
"""Images of a batch at most; `_BATCH_PIXELS` limits its memory."""
_BATCH_PIXELS = 2 << 20
"""Pixels of a batch at most, for some gigabytes of what a network keeps per pixel: 41 images of 224 x 224."""
_LEAST_ROWS, _MOST_ROWS = 32, 1024
"""Rows of a batch that is chosen by the number of rows, at least and at most."""
_UPDATES = 50
"""Updates of an epoch that a batch size aims at."""
_USUAL = 1e-3
"""The learning rate of `auto`; Adam's default (Kingma and Ba, 2015)."""
_ON_TABLES = 3e-3
"""The same for networks of tables with adam and adamw."""


class Adam(keras.optimizers.Adam):
    """Keras' Adam with one operation per variable instead of a dozen.

    Small networks spend more time on these operations than on their computation.
    """

    def update_step(self, gradient, variable, learning_rate):
        mean, square = adam_moments(self, variable)
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `peak`, then stays (constant, plateau) or falls to 0 (cosine, linear) at `steps`.

    With plateau the training loop reduces it to a fifth each time.

    Example: peak 1.0, 10 steps, 2 of warmup, linear: 0.5, 1.0, 0.875, 0.75 ... for steps 0, 1, 2, 3.
    """

    def __init__(self, peak: float, *, steps: int, warmup: int, decay: str):
        self.peak, self.steps, self.warmup, self.decay = peak, steps, warmup, decay
        self._level = keras.Variable(1.0, trainable=False, dtype="float32", name="learning_rate_level")

    @property
    def max_reductions(self) -> int:
        """The number of times that the training loop may reduce the learning rate."""
        return _REDUCTIONS if self.decay == "plateau" else 0

    def reduce(self, reductions: int) -> None:
        """Sets the learning rate to its value after `reductions` reductions in total."""
        self._level.assign(_REDUCTION_FACTOR**reductions)

    def __call__(self, step):
        """Returns the learning rate of update number `step`, counted from 0."""
        done = keras.ops.cast(step, "float32") + 1.0
        rising = done / max(1, self.warmup)
        after = keras.ops.clip((done - self.warmup) / max(1, self.steps - self.warmup), 0.0, 1.0)
        falling = {
            "constant": keras.ops.ones_like(after),
            "plateau": keras.ops.ones_like(after) * self._level,
            "linear": 1.0 - after,
            "cosine": 0.5 * (1.0 + keras.ops.cos(math.pi * after)),
        }[self.decay]
        return self.peak * keras.ops.minimum(rising, falling) if self.warmup else self.peak * falling

    def get_config(self):
        return {"peak": self.peak, "steps": self.steps, "warmup": self.warmup, "decay": self.decay}


def learning_rate_of(config: TrainingConfig, steps: int, peak: float) -> WarmupDecay:
    """Returns the learning-rate schedule of a training of `steps` updates, warmup included; `peak` is its maximum."""
    warmup = round(config.warmup * steps)
    if config.decay == "plateau":
        warmup = min(warmup, steps // config.max_epochs)
    return WarmupDecay(peak, steps=steps, warmup=warmup, decay=config.decay)


def make_optimizer(config: TrainingConfig, rate: WarmupDecay, policy: str = "float32") -> keras.optimizers.Optimizer:
    """Returns the optimizer of a training.

    Args:
        policy: The Keras dtype policy; mixed_float16 scales the loss, so that small gradients do not become 0.
    """
    choices: dict[str, tuple[Any, dict[str, Any]]] = {
        "adam": (Adam, {}),
        "adamw": (Adam, {"weight_decay": config.weight_decay}),
        "sgd": (keras.optimizers.SGD, {"momentum": 0.9, "nesterov": True}),
        "adagrad": (keras.optimizers.Adagrad, {}),
        "ftrl": (keras.optimizers.Ftrl, {}),
    }
    make, own = choices[config.optimizer]
    optimizer = make(learning_rate=rate, **own)
    return keras.optimizers.LossScaleOptimizer(optimizer) if policy == "mixed_float16" else optimizer


def batch_size_for(rows: int, pixels: int = 0) -> int:
    """Returns the power of two nearest to a fiftieth of `rows`, from 32 to 1,024: about 50 updates per epoch or more.

    With images it has at most 128 rows: larger batches learn more slowly, as an epoch has fewer updates, and on
    processors they are no faster per image. A batch of large images has only as many rows as fit into some gigabytes,
    because memory grows with the values that a network computes per pixel.

    Example: 10,000 rows give 256; 1,000,000 rows give 1,024, or 128 with images, or 32 with 224 x 224 pixels.

    Args:
        pixels: The pixels of an image; 0 without images.
    """
    largest = min(_MOST_IMAGES, _BATCH_PIXELS // pixels) if pixels else _MOST_ROWS
    wanted = 2 ** round(math.log2(max(1.0, rows / _UPDATES)))
    return min(2 ** int(math.log2(max(_LEAST_ROWS, largest))), max(_LEAST_ROWS, wanted))


def replica_batch_size(config: TrainingConfig, rows: int, replicas: int, pixels: int = 0) -> int:
    """Returns the number of examples per replica in an update.

    Args:
        replicas: The number of replicas over all workers.
        pixels: The pixels of an image; 0 without images.
    """
    size = batch_size_for(rows, pixels) if config.batch_size == "auto" else config.batch_size
    return -(-size // replicas) if config.scaling == "none" else size


def peak_learning_rate(config: TrainingConfig, replicas: int, *, table: bool) -> float:
    """Returns the peak learning rate of a training, scaled for `replicas`.

    Args:
        replicas: The number of replicas over all workers.
        table: Whether a network reads numbers and single categories only, and is trained from scratch.
    """
    usual = _ON_TABLES if table and config.optimizer in ("adam", "adamw") else _USUAL
    rate = usual if config.learning_rate == "auto" else config.learning_rate
    return rate * {"none": 1.0, "linear": float(replicas), "sqrt": math.sqrt(replicas)}[config.scaling]
