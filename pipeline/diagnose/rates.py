"""Measures throughput and the number of busy cores of this process."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import tensorflow as tf

from fullpass.trainer.fit.steps import Loop

_CALL_SECONDS = 0.1
"""Seconds of a call of the training loop: the clock is looked at after each."""
_MAX_STEPS = 1000
"""Updates of a call at most."""
_SETTLE = 0.25
"""The share of a measurement that is not counted, in which buffers fill and caches warm up."""
_LATE = 2.0
"""Times the length of a measurement after which it ends within a pass."""


@dataclass(frozen=True)
class Rate:
    """The throughput and the processor time of a measurement.

    Attributes:
        waited: The seconds in which the model waited for its next batch; 0 without a model.
    """

    rows: float
    seconds: float
    cpu_seconds: float
    waited: float = 0.0

    @property
    def per_second(self) -> float:
        """The examples per second."""
        return self.rows / self.seconds

    @property
    def seconds_per_row(self) -> float:
        """The seconds per example."""
        return self.seconds / self.rows

    @property
    def cores(self) -> float:
        """The cores kept busy, on average."""
        return self.cpu_seconds / self.seconds


class Meter:
    """Measures the time and processor time of a `with` block."""

    def __enter__(self) -> Self:
        self._cpu, self._start = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = time.process_time() - self._cpu

    def rate(self, rows: float, waited: float = 0.0) -> Rate:
        """Returns the rate at which `rows` were processed."""
        return Rate(rows, self.seconds, self.cpu_seconds, waited)


def seconds_of(call: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def drain(elements: Iterator[Any], rows_of: Callable[[Any], int], seconds: float, passes_of: int = 0) -> Rate:
    """Returns the rate at which elements arrive; takes them as fast as possible for about `seconds`, at least one.

    The first element and the elements of the first quarter of the time are not counted: building an iterator may take
    seconds, and elements that were prepared meanwhile arrive at once.

    Args:
        rows_of: Returns the number of examples in an element.
        passes_of: The examples of a pass. The measurement ends after a whole pass, unless that takes too long. 0 ends
            it anywhere.
    """
    next(elements)
    settled = time.perf_counter() + _SETTLE * seconds
    while time.perf_counter() < settled:
        next(elements)
    rows, deadline = 0, time.perf_counter() + (1 - _SETTLE) * seconds

    def done() -> bool:
        over = time.perf_counter() - deadline
        whole = not passes_of or rows % passes_of == 0
        return bool(rows) and over >= 0 and (whole or over > _LATE * seconds)

    with Meter() as meter:
        while not done():
            rows += rows_of(next(elements))
    return meter.rate(rows)


def train_for(loop: Loop, dataset: tf.data.Dataset, batch_size: int, seconds: float) -> Rate:
    """Makes updates on the batches of an endless dataset for about `seconds`, at least two, and returns their rate.

    Tracing and the batches that are prefetched during it are not counted.
    """
    batches = iter(dataset)
    loop(batches, 1)
    started = time.perf_counter()
    loop(batches, 1)
    settled, count = started + _SETTLE * seconds, 1
    while (spent := time.perf_counter()) < settled:
        loop(batches, count)
        step_seconds = (time.perf_counter() - spent) / count
        count = max(1, min(_MAX_STEPS, int(_CALL_SECONDS / max(step_seconds, 1e-6))))
    done, waited, deadline = 0, 0.0, time.perf_counter() + (1 - _SETTLE) * seconds
    with Meter() as meter:
        while not done or time.perf_counter() < deadline:
            waited += loop(batches, count).waited
            done += count
    return meter.rate(done * batch_size, waited)
