"""Work in another thread, while TensorFlow's updates and calls leave Python's lock to it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fullpass.trainer.input.workers import TrainingWorkers

_Result = TypeVar("_Result")
_ONE_THREAD = ThreadPoolExecutor(1, "beside-training")
"""More would only take Python's lock from each other."""


def beside(workers: TrainingWorkers, work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Begins work in another thread, and returns a function that waits for its result, or raises its error.

    Work that has not begun when its result is needed is done by the caller, as is that of a training on several
    devices: all of its workers must trace and compute in one order.

    Args:
        work: Is called once. While updates run it reads no weights, and traces nothing that they trace.
    """
    if workers.count * workers.replicas > 1:
        return work
    future = _ONE_THREAD.submit(work)
    return lambda: work() if future.cancel() else future.result()
