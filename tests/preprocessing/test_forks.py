"""The number of glibc memory arenas, counted in glibc's own report."""

import os
import subprocess
import sys

import pytest

_COUNTED = """
import ctypes, sys, threading
from fullpass.preprocessing.forks import limit_arenas
if int(sys.argv[1]):
    limit_arenas(int(sys.argv[1]))
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


def _arenas(tmp_path, most, **variables):
    report = tmp_path / "malloc.xml"
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | variables
    subprocess.run([sys.executable, "-P", "-c", _COUNTED, str(most), str(report)], env=environment, check=True)
    return report.read_text().count("<heap nr=")


@pytest.mark.skipif(not hasattr(os, "confstr") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="needs glibc")
def test_threads_share_few_pools_of_memory(tmp_path):
    assert _arenas(tmp_path, 0) > 3
    assert _arenas(tmp_path, 2) <= 3
    assert _arenas(tmp_path, 2, MALLOC_ARENA_MAX="6") > 3
