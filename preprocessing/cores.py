"""How many cores this process may use: not those of the machine, where it runs in a container or is pinned."""

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Returns the whole cores that the process may use, at least 1.

    The least of the cores it may be scheduled on and of the quota of its control group, which is where Kubernetes and
    Docker put a limit such as `cpu: 2`; the group is the root of the mount in a container.

    Args:
        cgroups: where control groups are mounted.
    """
    scheduled = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroups)
    return scheduled if quota is None else max(1, min(scheduled, int(quota)))


def _quota(cgroups: Path) -> float | None:
    """Returns the cores that the control group may use at a time, or None without a limit."""
    try:
        if (cgroups / "cpu.max").is_file():  # version 2: "200000 100000", or "max 100000"
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota, period = ((cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):
        return None
