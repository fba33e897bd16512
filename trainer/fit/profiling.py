"""A trace of some updates for TensorBoard's Profiler."""

import tensorflow as tf


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
