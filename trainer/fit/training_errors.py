"""Explains why an update failed: a loss that is not finite, or too little memory."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.fit.steps import Steps
from fullpass.trainer.input.split_counts import rows_not_finite

_MAX_NAMES = 10


def explain_not_finite(begin: Callable[[int, int], tf.data.Dataset], epoch: int, step: int, batches: int) -> UserError:
    """Returns the error for a loss that is NaN or infinite, and names the values in its batches that are not finite.

    Args:
        begin: Returns the batches again, from an epoch and step on.
        epoch: The epoch of these updates, from 0.
        step: The updates of the epoch before them.
        batches: The number of batches to check.
    """
    for number, (features, label, weight) in enumerate(begin(epoch, step).take(batches)):
        bad = rows_not_finite({**features, "the label": label, "the weight": weight})
        if bad:
            named = ", ".join(f"{name} in {rows:,} rows" for name, rows in list(bad.items())[:_MAX_NAMES])
            return UserError(
                f"the loss is not finite in epoch {epoch + 1}, update {step + number + 1}: its batch of "
                f"{len(weight):,} rows contains NaN or infinity: {named}. Check how the function or transform that "
                "computes them handles missing and extreme values. The last checkpoint was written before this update."
            )
    return UserError(
        f"the loss is not finite in epoch {epoch + 1}, after update {step + 1}. All features and labels of its "
        "batches are finite, so training diverged: lower training.learning_rate, or set training.clip_norm (1.0, "
        "say). The last checkpoint was written before this update."
    )


def explain_memory(steps: Steps, dataset: tf.data.Dataset, error: tf.errors.ResourceExhaustedError) -> UserError:
    """Returns the error for a batch that does not fit into memory; the largest part that fits is found by halving."""
    lines = str(error.message).splitlines()
    message = next((line for line in lines if "OOM" in line), lines[0])[:200]
    batch = next(iter(dataset))
    rows = int(tf.shape(batch[2])[0])
    parts = 2
    while rows // parts and not _fits(steps, batch, -(-rows // parts)):
        parts *= 2
    if rows // parts == 0:
        return UserError(
            f"out of memory, even with a batch of one row: {message}. The model is too large for the device."
        )
    fits = -(-rows // parts)
    return UserError(
        f"out of memory with {rows:,} rows of a batch on one device; {fits:,} fit (tried on one of its batches). Set "
        f"training.accumulate to {parts * steps.accumulate}, which computes the same updates in micro-batches, or "
        f"divide training.batch_size by {parts}. TensorFlow reported: {message}"
    )


def _fits(steps: Steps, batch: Any, rows: int) -> bool:
    def try_gradient() -> tf.Tensor:
        part: Any = tf.nest.map_structure(lambda value: value[:rows], batch)
        return steps.gradients(part[0], part[1], part[2], tf.constant(1.0))[0]

    try:
        steps.strategy.run(tf.function(try_gradient, autograph=False))
    except tf.errors.ResourceExhaustedError:
        return False
    return True
