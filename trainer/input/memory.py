"""Measures how much memory this process may allocate."""

from collections.abc import Iterator
from pathlib import Path

import psutil

# (limit, usage, the line of memory.stat that counts the file cache, which is reclaimed when memory is needed)
_CGROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory(root: Path = Path("/"), machine: int | None = None) -> int:
    """Returns the bytes that can still be allocated on the machine, or in the container if that is less.

    Args:
        root: The folder that holds proc and sys.
        machine: The bytes available on the machine; by default as the system reports.
    """
    free = psutil.virtual_memory().available if machine is None else machine
    return min([free, *(free for folder in _cgroups(root) for free in _free_in(folder))])


def machine_memory(root: Path = Path("/"), machine: int | None = None) -> int:
    """Returns the bytes of memory of the machine, or of the container if that is less; arguments as above."""
    total = psutil.virtual_memory().total if machine is None else machine
    return min([total, *(limit for folder in _cgroups(root) for limit, _ in _limits(folder))])


def _cgroups(root: Path) -> list[Path]:
    """Returns the folders of this process's control group and of its parents, each of which may have a limit."""
    top = root / "sys/fs/cgroup"
    own = root / "proc/self/cgroup"
    lines = own.read_text().splitlines() if own.exists() else []
    inner = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    folder = top / inner
    return [path for path in (folder, *folder.parents) if path == top or top in path.parents]


def _free_in(folder: Path) -> list[int]:
    return [max(0, limit - used) for limit, used in _limits(folder)]


def _limits(folder: Path) -> Iterator[tuple[int, int]]:
    """Yields the limit of a control group, and the bytes of it that are in use and cannot be reclaimed."""
    for limit, used, reclaimable in _CGROUPS:
        limit_file, used_file = folder / limit, folder / used
        if limit_file.exists() and used_file.exists():
            text = limit_file.read_text().strip()
            if text.isdigit():
                yield (
                    int(text),
                    int(used_file.read_text()) - _statistic(used_file.with_name("memory.stat"), reclaimable),
                )


def _statistic(file: Path, name: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
