"""Usable cores, from control groups and affinity; glibc's memory arenas; commands that exceed their time limit."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fullpass.base import processes
from fullpass.base.processes import run_bounded

_COUNTED = """
import ctypes, os, sys, threading
from fullpass.base.processes import limit_arenas
if int(sys.argv[1]):
    limit_arenas(int(sys.argv[1]))
if sys.argv[3:]:
    os.execv(sys.executable, [sys.executable, "-P", "-c", sys.argv[3], "0", sys.argv[2]])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
meet = threading.Barrier(16)
def allocate():
    meet.wait()
    libc.malloc(1000)
    meet.wait()
threads = [threading.Thread(target=allocate) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def _arenas(tmp_path, most, *then, **variables):
    report = tmp_path / "malloc.xml"
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | variables
    subprocess.run([sys.executable, "-P", "-c", _COUNTED, str(most), str(report), *then], env=environment, check=True)
    return report.read_text().count("<heap nr=")


@pytest.mark.skipif(not hasattr(os, "confstr") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="needs glibc")
def test_threads_share_few_pools_of_memory(tmp_path):
    assert _arenas(tmp_path, 0) > 3
    assert _arenas(tmp_path, 2) <= 3
    assert _arenas(tmp_path, 2, _COUNTED) <= 3, "also those of a program that the process starts"
    assert _arenas(tmp_path, 2, MALLOC_ARENA_MAX="6") > 3


HERE = len(os.sched_getaffinity(0))
FORMS = {
    "version 2": lambda quota: {"cpu.max": f"{quota} 100000\n"},
    "version 1": lambda quota: {"cpu/cpu.cfs_quota_us": f"{quota}\n", "cpu/cpu.cfs_period_us": "100000\n"},
}


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """Returns `limited(form, quota)`: the usable cores, of 8, under a quota in microseconds per 100 ms."""
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda pid: set(range(8)))

    def ask(form, quota):
        for name, text in FORMS[form](quota).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return processes.usable_cores(tmp_path)

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
    code += "from pathlib import Path; from fullpass.base.processes import usable_cores; "
    code += "print(usable_cores(Path('/none')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n" and processes.usable_cores(tmp_path) == HERE


def test_what_leaves_the_group_and_the_session_is_killed_too(tmp_path):
    left = "setsid sh -c 'echo $$ > new; mv new left; (exec sleep 300) & wait' & sleep 300"
    for seconds in (1.5, 10, 60):  # a busy machine may not have begun before the end of the shorter ones
        with pytest.raises(subprocess.TimeoutExpired):
            run_bounded(["sh", "-c", left], seconds=seconds, folder=tmp_path)
        if (tmp_path / "left").exists():
            break
    pid = int((tmp_path / "left").read_text())
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, f"{pid} lives"
        time.sleep(0.02)


def test_a_command_in_time_gets_its_environment_and_input():
    done = run_bounded(
        ["sh", "-c", "cat; echo $A >&2; exit 3"], seconds=60, stdin=b"x", environment={"A": "b", **os.environ}
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"x", b"b\n")
