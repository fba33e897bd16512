"""Turns SIGTERM and SIGINT into an event, or defers them, for processes that must end something else first."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals(threading.Event):
    """An event that stop signals set; `count` is the number of signals received."""

    count = 0

    def receive(self, number: int, frame: object) -> None:
        """Handles a signal."""
        self.count += 1
        if self.count == 1:  # a handler may interrupt another one, and `set` takes a lock
            self.set()


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Yields an event that SIGTERM and SIGINT set instead of ending this process."""
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
