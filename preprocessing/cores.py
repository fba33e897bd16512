"""The number of cores that this process may use, which a container or pinning can limit."""

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Returns the number of whole cores that the process may use, at least 1.

    It is the minimum of the cores that the process may be scheduled on and of the quota of its control group.
    Kubernetes and Docker set that quota for a limit such as `cpu: 2`. In a container the group is the root of the
    mount.

    Args:
        cgroups: mount point of the control groups.
    """
    scheduled = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroups)
    return scheduled if quota is None else max(1, min(scheduled, int(quota)))


def _quota(cgroups: Path) -> float | None:
    """Returns the number of cores that the control group may use at a time, or None without a limit."""
    try:
        if (cgroups / "cpu.max").is_file():  # version 2: "200000 100000", or "max 100000"
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota, period = ((cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):
        return None
