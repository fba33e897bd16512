"""`fullpass serve` as a process: a change of version under load, `kill -9`, a full disk, its imports."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from tests.components.serving.test_app import FULL, PREDICT, RAW

pytestmark = pytest.mark.integration
ROWS = {**RAW, "instances": [FULL, {**FULL, "x": -2.0}]}


@contextmanager
def serving(folder, *options, before=None):
    """Runs the command at a free port; yields the process, its address, and what it writes to standard error."""
    command = [sys.executable, "-m", "fullpass", "serve", str(folder), "--name", "trips", "--port", "0", *options]
    errors = folder.parent / f"{folder.name}.err"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, preexec_fn=before)
    try:
        line = process.stdout.readline().decode()
        assert " at http://" in line, errors.read_text()
        yield process, line.split()[-1].partition("/v1")[0], errors
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(address, body=ROWS, path=PREDICT):
    """Returns status and JSON of an answer; of a GET without a body, the text."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}{path}", data), timeout=60) as answer:
        content = answer.read()
        return answer.status, content.decode() if body is None else json.loads(content)


class Asking(threading.Thread):
    """A client that asks until it is stopped, or gets no answer."""

    def __init__(self, address):
        super().__init__()
        self.address, self.ended, self.answers, self.lost = address, threading.Event(), [], []

    def run(self):
        try:
            while not self.ended.is_set():
                self.answers.append(ask(self.address))
        except (OSError, HTTPException) as error:
            self.lost.append(error)


def until(true, seconds=60):
    last = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < last, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def folder(pushed, tmp_path):
    return shutil.copytree(pushed, tmp_path / "served")


def log_lines(log):
    """Returns the rows of all complete files; a torn one is no JSON."""
    return [json.loads(line) for path in log.glob("*/*.jsonl") for line in path.read_text().splitlines()]


@pytest.mark.long
def test_a_change_of_version_loses_and_mixes_no_answer(folder, exported):
    with serving(folder) as (process, address, errors):
        clients = [Asking(address) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            time.sleep(1)
            (folder / "9").mkdir()  # a copy that has only begun is no model
            until(lambda: "Version 9 cannot be served" in errors.read_text())
            (folder / "9").rmdir()
            shutil.copytree(exported("regression").directory, folder / ".pending-8")
            (folder / ".pending-8").rename(folder / "8")
            until(lambda: "Now served: version 8, instead of 7" in errors.read_text())
            time.sleep(1)
            (folder / "8").rename(folder / "rolled_back-8")
            until(lambda: "Now served: version 7, instead of 8" in errors.read_text())
            time.sleep(1)
        finally:
            for client in clients:
                client.ended.set()
            for client in clients:
                client.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert [error for client in clients for error in client.lost] == []
    answers = [answer for client in clients for answer in client.answers]
    assert {status for status, _ in answers} == {200}
    kinds = [[set(row) for row in answer["predictions"]] for _, answer in answers]
    classes = {"scores", "prediction", "probabilities", "classes"}
    assert len(answers) > 100 and all(len(kind) == 2 and kind[0] == kind[1] for kind in kinds), "one version per answer"
    assert {frozenset(kind[0]) for kind in kinds} == {frozenset(classes), frozenset({"scores", "prediction"})}


@pytest.mark.long
def test_kill_9_leaves_no_torn_line_that_a_reader_takes_for_whole(folder, tmp_path):
    log = tmp_path / "log"
    with serving(folder, "--log", str(log), "--rotate-seconds", "0.3") as (process, address, _):
        clients = [Asking(address) for _ in range(4)]
        for client in clients:
            client.start()
        until(lambda: len(log_lines(log)) > 100)
        process.kill()
        process.wait()
        for client in clients:
            client.ended.set()
            client.join()
    [left] = log.glob("*/*.open")
    with left.open("ab") as file:
        file.write(b'{"log_id": "torn')
    complete = len(log_lines(log))
    with serving(folder, "--log", str(log)) as (_, address, errors):
        assert re.search(r"Completed .*\.open, .* its last line was torn, 16 bytes", errors.read_text())
        _, counts = ask(address, None, "/monitoring/prometheus/metrics")
        assert 'outcome="torn"} 1\n' in counts
        assert list(log.glob("*/*.open")) == []
        rows = log_lines(log)
    answered = sum(len(client.answers) for client in clients)
    assert complete <= len(rows) and 0.8 * 2 * answered < len(rows) <= 2 * (answered + 4)


@pytest.mark.long
def test_a_full_disk_is_told_and_changes_no_answer(folder, tmp_path):
    log = tmp_path / "log"
    log.mkdir()

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    with serving(folder, "--log", str(log), before=small_files) as (process, address, errors):
        found = [ask(address) for _ in range(200)]
        until(lambda: "The log lost" in errors.read_text())
        _, counts = ask(address, None, "/monitoring/prometheus/metrics")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        told = errors.read_text()
    assert {(status, len(answer["predictions"])) for status, answer in found} == {(200, 2)}
    assert "rows: [Errno 27] File too large" in told and 'outcome="lost_disk"' in counts
    lost = sum(int(number) for number in re.findall(r"The log lost (\d+) rows", told))
    assert len(log_lines(log)) + lost == 400 and 10 < len(log_lines(log)) < 100


@pytest.mark.long
def test_the_server_imports_neither_tfx_nor_transform_nor_beam():
    code = (
        "import sys\n"
        "from fullpass.pipeline import cli\n"
        "from fullpass.pipeline.startup import set_environment, without_keras\n"
        "set_environment()\nwithout_keras()\n"
        "from fullpass.components.serving import app, versions\n"
        "from fullpass.components.serving import log_writer\n"
        "unwanted = ('tfx', 'tensorflow_transform', 'apache_beam', 'pandas', 'sklearn', 'grpc')\n"
        "print([name for name in unwanted if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "[]\n"


@pytest.mark.long
def test_a_folder_without_a_model_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fullpass", "serve", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"{tmp_path}: no model to serve. Expected folders named by version (1, 2 ...)" in done.stderr
