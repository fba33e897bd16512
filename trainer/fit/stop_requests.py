"""Requests to stop, which wait until training has been saved."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Holds back SIGTERM and SIGINT; yields a list that grows by the number of each.

    When the block is left, the first one is sent again and has the effect it would have had at once. A second one
    while the block runs is not held back. In a thread other than the main one signals stay as they are.
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
