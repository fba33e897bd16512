"""Plans how a split is read, from the section `input:` and the memory and cores of the machine."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fullpass.base.processes import usable_cores
from fullpass.trainer.config import InputConfig
from fullpass.trainer.input.memory import available_memory, machine_memory
from fullpass.trainer.input.service.client import DataService, find_service

MAX_READERS = 16
"""Files that are read at the same time at most with `readers: auto`."""
_SMALLEST_WINDOW = 1 << 20
"""Bytes of a window of shuffled rows at least."""
_LARGEST_WINDOW = 256 << 20
"""The same at most."""


@dataclass(frozen=True)
class ReadingPlan:
    """How a split is read.

    Attributes:
        memory_limit: The bytes that its rows may take in memory.
        cache: The folder of a file on disk for rows beyond that; None streams them from the files.
        window_bytes: The bytes of the rows that are shuffled together while they stream, at most.
        service: The tf.data service that parses the records; None parses them in the trainer.
    """

    readers: int = 1
    memory_limit: int = sys.maxsize
    cache: Path | None = None
    window_bytes: int = _LARGEST_WINDOW
    service: DataService | None = None


def plan_reading(config: InputConfig, files: Sequence[str]) -> ReadingPlan:
    """Returns how a split is read under the section `input:`."""
    allowed = int(available_memory() * config.memory_fraction)
    limits = {"none": 0, "disk": 0, "memory": sys.maxsize, "auto": allowed}
    # All memory counts, free or not, because windows determine the order of the rows.
    window = max(_SMALLEST_WINDOW, min(_LARGEST_WINDOW, int(machine_memory() * config.memory_fraction) // 8))
    folder = Path(config.cache_dir or tempfile.gettempdir()) if config.cache in ("auto", "disk") else None
    readers = min(len(files), MAX_READERS, usable_cores()) if config.readers == "auto" else config.readers
    return ReadingPlan(readers, limits[config.cache], folder, window, find_service(config.service))
