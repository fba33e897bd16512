"""What every fork of the project begins with: streams that are written out, and an end when its parent ends."""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def flush_streams() -> None:
    """Writes out what standard output and error hold back; a full disk or a reader that has left is no error.

    A fork would write it again. What could not be written stays in the stream, whose next flush fails again, long after
    the print that was lost.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def end_with_parent(parent: int) -> bool:
    """Has this process get SIGTERM when its parent ends; returns whether the parent is still there.

    Args:
        parent: The process that has forked this one.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent
