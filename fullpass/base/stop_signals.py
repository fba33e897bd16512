"""Turns SIGTERM and SIGINT into an event, for processes that must stop other processes first."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals(threading.Event):
    """An event that stop signals set.

    Attributes:
        count: Number of signals received.
    """

    count = 0

    def receive(self, number: int, frame: object) -> None:
        """Handles a signal."""
        self.count += 1
        if self.count == 1:  # a handler may interrupt another one, and `set` takes a lock
            self.set()


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Yields an event that SIGTERM and SIGINT set instead of ending this process, in the main thread."""
    stop = StopSignals()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.receive) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
