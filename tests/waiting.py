"""Waits for what other processes do, and says whether a process is alive."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def until(condition: Callable[[], Found], seconds: float = 300) -> Found:
    """Waits until a condition holds, and returns what it returned.

    Raises:
        TimeoutError: It did not hold within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.01)
    return found


def is_alive(pid: int) -> bool:
    """Returns whether a process that is not our child is there and not a zombie."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
