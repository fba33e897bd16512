"""Training curves for TensorBoard."""

from collections.abc import Mapping

import tensorflow as tf

VALIDATION = "validation"
"""Folder of the eval split's curves."""
_EVALUATION = "val_"


class Curves:
    """Writes the metrics of each epoch into `folder`/train and `folder`/validation, and flushes them."""

    def __init__(self, folder: str):
        self._train = tf.summary.create_file_writer(f"{folder}/train")
        self._evaluation = tf.summary.create_file_writer(f"{folder}/{VALIDATION}")

    def write(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of an epoch, counted from 1; names that begin with `val_` are of the eval split."""
        for name, value in metrics.items():
            writer = self._evaluation if name.startswith(_EVALUATION) else self._train
            with writer.as_default(step=epoch):
                tf.summary.scalar(name.removeprefix(_EVALUATION), value)
        self._train.flush()
        self._evaluation.flush()

    def close(self) -> None:
        """Closes the files."""
        self._train.close()
        self._evaluation.close()
