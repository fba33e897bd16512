"""What TensorBoard shows of a training: its curves, and a trace of some updates."""

from collections.abc import Mapping

import tensorflow as tf

VALIDATION = "validation"
"""Folder of the validation rows' curves."""
_EVALUATION = "val_"


class CurveWriter:
    """Writes the metrics of each epoch into `folder`/train and `folder`/validation, and flushes them."""

    def __init__(self, folder: str):
        self._train = tf.summary.create_file_writer(f"{folder}/train")
        self._evaluation = tf.summary.create_file_writer(f"{folder}/{VALIDATION}")

    def write(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of an epoch, counted from 1; names that begin with `val_` are of the validation rows."""
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


class Profile:
    """Traces the updates `first` to `last`, counted from 1 over the whole training, into `folder`."""

    def __init__(self, folder: str | None = None, steps: tuple[int, int] | None = None):
        """Traces nothing without `folder` or `steps`."""
        self._folder = folder
        self._first, self._last = steps if folder and steps else (0, 0)
        self._running = False

    def until_boundary(self, done: int, count: int) -> int:
        """Returns how many of the next `count` updates may go into one call; starts the trace when it is due."""
        if not self._last or done >= self._last:
            return count
        if done < self._first - 1:
            return min(count, self._first - 1 - done)
        if not self._running and done == self._first - 1:
            tf.profiler.experimental.start(self._folder)
            self._running = True
        return min(count, self._last - done)

    def at(self, done: int) -> None:
        """Ends the trace after update `last`."""
        if self._running and done >= self._last:
            self.close()

    def close(self) -> None:
        """Ends a trace that is still running."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
