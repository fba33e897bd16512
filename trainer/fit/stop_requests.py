"""Defers stop signals until training has been saved."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Defers SIGTERM and SIGINT; yields a list to which the number of each received signal is appended.

    When the block ends, the first signal is sent again and has its original effect. If the same signal arrives again
    while the block runs, it is not deferred. Outside the main thread, signal handling does not change.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            os.kill(os.getpid(), received[0])
