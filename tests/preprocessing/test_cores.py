"""The number of usable cores, from control groups of both versions and from the CPU affinity."""

import os
import subprocess
import sys

import pytest

from fullpass.preprocessing import cores

HERE = len(os.sched_getaffinity(0))
FORMS = {
    "version 2": lambda quota: {"cpu.max": f"{quota} 100000\n"},
    "version 1": lambda quota: {"cpu/cpu.cfs_quota_us": f"{quota}\n", "cpu/cpu.cfs_period_us": "100000\n"},
}


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """Returns `limited(form, quota)`: the usable cores, of 8, under a quota in microseconds per 100 ms."""
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda pid: set(range(8)))

    def ask(form, quota):
        for name, text in FORMS[form](quota).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return cores.usable_cores(tmp_path)

    return ask


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("quota", "usable"), [(300_000, 3), (250_000, 2), (50_000, 1), (1_600_000, 8)])
def test_the_limit_of_a_container_counts(limited, form, quota, usable):
    assert limited(form, quota) == usable


@pytest.mark.parametrize(("form", "quota"), [("version 2", "max"), ("version 1", -1), ("version 2", "spoilt")])
def test_without_a_limit_the_cores_of_the_machine_do(limited, form, quota):
    assert limited(form, quota) == 8


def test_a_process_that_is_pinned_uses_what_it_is_pinned_to(tmp_path):
    code = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "from pathlib import Path; from fullpass.preprocessing.cores import usable_cores; "
    code += "print(usable_cores(Path('/none')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n" and cores.usable_cores(tmp_path) == HERE
