"""What forks of the project begin with: streams that are written out, an end when the parent ends, few memory pools."""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8


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


def limit_arenas(most: int) -> None:
    """Has glibc keep at most `most` pools of free memory in this process, instead of eight for each core.

    Threads that parse and free batches leave pieces in every pool, so that resident memory rises for minutes. Who sets
    MALLOC_ARENA_MAX is followed; other C libraries have no such pools.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, most)
