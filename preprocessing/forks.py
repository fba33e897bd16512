"""Helpers for forked processes: flush streams, terminate with the parent, and limit memory pools."""

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8


def flush_streams() -> None:
    """Flushes standard output and error; a full disk or a closed reader is no error.

    Otherwise a fork would write the buffered text again. Text that could not be written stays in the buffer, so a later
    flush fails again, long after the lost print.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def end_with_parent(parent: int) -> bool:
    """Makes this process receive SIGTERM when its parent ends; returns whether the parent is still alive.

    Args:
        parent: The process that forked this one.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent


def limit_arenas(most: int) -> None:
    """Limits glibc to `most` memory arenas in this process, instead of eight per core.

    Threads that parse and free batches leave fragments in every arena, which makes resident memory grow for minutes. If
    the user sets MALLOC_ARENA_MAX, that value is kept. Other C libraries have no such arenas.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, most)
