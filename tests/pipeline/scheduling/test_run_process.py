"""The process of a scheduled run, and the lock that tells whether anything of it is alive."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.scheduling import run_process
from tests import REPOSITORY
from tests.waiting import until


def python(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


def test_a_run_prints_to_its_log_and_is_in_flight_until_its_last_process_ends(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # The run itself ends at once; a node that it forked stays until the gate is opened.
    code = "import os, sys\nprint(os.environ['WHO'], flush=True)\nif os.fork() == 0: open(sys.argv[1]).read()"
    log = tmp_path / "logs" / "1.log"
    run = run_process.start(python(code, gate), folder=tmp_path, log=log, environment={"WHO": "me"})
    assert run.wait(60) == 0 and log.read_text() == "me\n"
    assert run_process.in_flight(tmp_path)
    with pytest.raises(BlockingIOError):
        run_process.start(python("pass"), folder=tmp_path, log=log, environment={})
    gate.write_text("")
    until(lambda: not run_process.in_flight(tmp_path))


def test_a_run_outlives_a_killed_scheduler_and_is_known_to_the_next(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    scheduler = (
        "import sys, time; from pathlib import Path; from fullpass.pipeline.scheduling import run_process as process\n"
        "here, code = Path(sys.argv[1]), 'import sys; open(sys.argv[1]).read()'\n"
        "command = [sys.executable, '-c', code, sys.argv[2]]\n"
        "process.start(command, folder=here, log=here / 'log', environment={}); print('started', flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen(python(scheduler, tmp_path, gate), cwd=REPOSITORY, stdout=subprocess.PIPE) as one:
        assert one.stdout.readline() == b"started\n"
        one.send_signal(signal.SIGKILL)
        one.wait(60)
    assert run_process.in_flight(tmp_path)
    gate.write_text("")
    until(lambda: not run_process.in_flight(tmp_path))


def test_a_run_is_asked_to_stop_and_then_killed(tmp_path):
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.1)"
    )
    log = tmp_path / "log"
    run = run_process.start(python(code), folder=tmp_path, log=log, environment={})
    until(lambda: "up" in log.read_text())
    assert run.poll() is None and run.wait(0.01) is None
    run.stop(2)
    assert "asked" in log.read_text() and run.wait(60) == -signal.SIGKILL


@pytest.mark.integration
def test_the_command_is_that_of_these_modules_wherever_it_is_started(tmp_path):
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("raise RuntimeError('not this one')")
    command = RunRequest(span="5", wait=True).command(Path("no.yaml"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "no such file" in done.stderr
