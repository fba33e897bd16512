"""Notes SIGTERM and SIGINT, or defers them, for processes that must end something else first."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LONGEST_SLEEP = 0.1


class StopSignals:
    """The stop signals of this process; `count` is the number of signals received.

    It is no `threading.Event`: its `set` takes a lock that the interrupted code may hold, and a wait without a time
    limit would never end if the system gives the signal to another thread, as Python handles it in this one.
    """

    count = 0

    def receive(self, number: int, frame: object) -> None:
        """Handles a signal."""
        self.count += 1

    def is_set(self) -> bool:
        """Returns whether a signal has been received."""
        return self.count > 0

    def wait(self, timeout: float = math.inf) -> bool:
        """Waits up to `timeout` seconds for a signal; returns whether one has been received."""
        deadline = time.monotonic() + timeout
        while not self.count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP))
        return self.is_set()


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Yields what SIGTERM and SIGINT set instead of ending this process."""
    stop = StopSignals()
    with _handled_by(stop.receive):
        yield stop


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Defers SIGTERM and SIGINT; yields a list to which the number of each received signal is appended.

    When the block ends, the first signal is sent again and has its original effect. If the same signal arrives again
    while the block runs, it is not deferred.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    try:
        with _handled_by(note):
            yield received
    finally:
        if received:
            os.kill(os.getpid(), received[0])


@contextmanager
def _handled_by(receive: Callable[[int, object], None]) -> Iterator[None]:
    """Calls `receive` for stop signals within the block. Outside the main thread, signal handling does not change."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
