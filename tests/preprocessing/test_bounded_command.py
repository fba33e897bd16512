"""Commands that exceed their time limit: no process that they started outlives them."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from fullpass.preprocessing.bounded_command import run_bounded


def test_what_leaves_the_group_and_the_session_is_killed_too(tmp_path):
    left = "setsid sh -c 'echo $$ > left; (exec sleep 300) & wait' & sleep 300"
    with pytest.raises(subprocess.TimeoutExpired):
        run_bounded(["sh", "-c", left], seconds=1.5, folder=tmp_path)
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
