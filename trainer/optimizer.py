"""Optimizers and the learning rate over time."""

import math

import keras

from trainer.config import TrainingConfig


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly from 0 to `peak`, then stays (constant) or falls to 0 (cosine, linear) at `steps`.

    Example: peak 1.0, 10 steps, 2 of warmup, linear: 0.5, 1.0, 0.875, 0.75 ... for steps 0, 1, 2, 3.
    """

    def __init__(self, peak: float, *, steps: int, warmup: int, decay: str):
        self.peak, self.steps, self.warmup, self.decay = peak, steps, warmup, decay

    def __call__(self, step):
        """Returns the learning rate of update number `step`, counted from 0."""
        done = keras.ops.cast(step, "float32") + 1.0
        rising = done / max(1, self.warmup)
        after = keras.ops.clip((done - self.warmup) / max(1, self.steps - self.warmup), 0.0, 1.0)
        falling = {
            "constant": keras.ops.ones_like(after),
            "linear": 1.0 - after,
            "cosine": 0.5 * (1.0 + keras.ops.cos(math.pi * after)),
        }[self.decay]
        return self.peak * keras.ops.minimum(rising, falling) if self.warmup else self.peak * falling

    def get_config(self):
        """See base class."""
        return {"peak": self.peak, "steps": self.steps, "warmup": self.warmup, "decay": self.decay}


def make_optimizer(config: TrainingConfig, steps: int, policy: str = "float32") -> keras.optimizers.Optimizer:
    """Returns the optimizer for a training of `steps` updates in all.

    Args:
        config: the section `training:`.
        steps: updates, warmup included.
        policy: Keras dtype policy; with mixed_float16 the loss is scaled, so that small gradients do not become 0.
    """
    optimizer = _plain_optimizer(config, steps)
    return keras.optimizers.LossScaleOptimizer(optimizer) if policy == "mixed_float16" else optimizer


def _plain_optimizer(config: TrainingConfig, steps: int) -> keras.optimizers.Optimizer:
    rate = WarmupDecay(config.learning_rate, steps=steps, warmup=round(config.warmup * steps), decay=config.schedule)
    common = {"learning_rate": rate, "global_clipnorm": config.clip_norm}
    match config.optimizer:
        case "adam":
            return keras.optimizers.Adam(**common)
        case "adamw":
            return keras.optimizers.AdamW(weight_decay=config.weight_decay, **common)
        case "sgd":
            return keras.optimizers.SGD(momentum=0.9, nesterov=True, **common)
        case "adagrad":
            return keras.optimizers.Adagrad(**common)
        case "ftrl":
            return keras.optimizers.Ftrl(**common)


def batch_size_for(rows: int) -> int:
    """Returns the power of two nearest to a fiftieth of `rows`, from 32 to 1,024: about 50 updates per epoch or more.

    Example: 10,000 rows give 256, 1,000,000 give 1,024.
    """
    return min(1024, max(32, 2 ** round(math.log2(max(1.0, rows / 50)))))


def replica_batch_size(config: TrainingConfig, rows: int, replicas: int) -> int:
    """Returns the examples that each replica takes in an update.

    Args:
        config: the section `training:`.
        rows: of the train split, for `batch_size: auto`.
        replicas: in all.
    """
    size = batch_size_for(rows) if config.batch_size == "auto" else config.batch_size
    return -(-size // replicas) if config.scaling == "none" else size


def scaled_learning_rate(config: TrainingConfig, replicas: int) -> TrainingConfig:
    """Returns the section with the learning rate for so many replicas."""
    factor = {"none": 1.0, "linear": float(replicas), "sqrt": math.sqrt(replicas)}[config.scaling]
    return config.model_copy(update={"learning_rate": config.learning_rate * factor})
