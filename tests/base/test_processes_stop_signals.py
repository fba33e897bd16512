"""Tests how a process waits for stop signals, in processes of their own."""

import signal
import subprocess
import sys

import pytest

from tests import REPOSITORY

WAITS = """
import os, signal, threading, time
from fullpass.base.processes import stop_signals

other = threading.Thread(target=time.sleep, args=[60], daemon=True)
other.start()
with stop_signals() as stop:
    assert not stop.is_set() and not stop.wait(0.01)
    threading.Timer(0.3, lambda: {sends}).start()
    assert stop.wait() and stop.is_set() and stop.count == 1
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("to", ["os.kill(os.getpid(), {})", "signal.pthread_kill(other.ident, {})"])
def test_a_wait_ends_whichever_thread_the_system_gives_the_signal_to(to, number):
    script = WAITS.format(sends=to.format(int(number)))
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, timeout=20, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
