"""Receivers that take their time, as `fullpass run` meets them: the root is free meanwhile, and each is told once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from fullpass.pipeline.root import locks
from tests import REPOSITORY, warm_process
from tests.loopback import QuietHandler, serving
from tests.pipeline.running.failing_run import LIMIT_SECONDS, failing_yaml, write_trips

pytestmark = pytest.mark.integration
YAML = failing_yaml("[{url_env: SLOW, timeout: 250}, {url_env: TROUBLED, retries: 9}]")


@contextmanager
def receivers():
    """A server with an address that answers when `may_answer` is set, and one in trouble for ever."""
    got, asked, may_answer = [], threading.Event(), threading.Event()

    class Handler(QuietHandler):
        def do_POST(self):
            facts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append((self.path, facts["event"], facts["exit_code"], facts["run_id"]))
            asked.set()
            if self.path == "/slow":
                may_answer.wait(LIMIT_SECONDS)
            self.send_response(200 if self.path == "/slow" else 503)
            self.end_headers()

    with serving(Handler) as address:
        try:
            yield address, got, asked, may_answer
        finally:
            may_answer.set()


def test_the_root_is_free_while_receivers_are_told_and_a_signal_loses_none_of_them(tmp_path):
    write_trips(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(YAML)
    root = tmp_path / "runs" / "daily"
    command = [sys.executable, "-m", "fullpass", "run", str(tmp_path / "pipeline.yaml")]
    with receivers() as (address, got, asked, may_answer), (tmp_path / "out").open("w") as out:
        environment = os.environ | {"SLOW": f"{address}/slow", "TROUBLED": f"{address}/troubled"}
        with warm_process.Process(command, cwd=REPOSITORY, env=environment, stdout=out, stderr=out) as run:
            try:
                assert asked.wait(LIMIT_SECONDS), (tmp_path / "out").read_text()
                with locks.run_lock(root):
                    assert run.poll() is None
                run.send_signal(signal.SIGTERM)
                run.send_signal(signal.SIGINT)
                with pytest.raises(subprocess.TimeoutExpired):
                    run.wait(1)
                may_answer.set()
                assert run.wait(LIMIT_SECONDS) == 1
            finally:
                run.kill()
    printed = (tmp_path / "out").read_text()
    [logs] = (root / "logs").iterdir()
    # Stopped, it waits no longer between tries; each receiver has had one.
    assert got == [(path, "failure", 1, logs.name) for path in ("/slow", "/troubled")], printed
    assert "notify[1]: the address in TROUBLED could not be notified of failure: it answered 503." in printed
    assert "notify[0]" not in printed and "Traceback" not in printed
    with sqlite3.connect(root / "history.sqlite") as history:
        assert history.execute("SELECT run_id, outcome FROM runs").fetchall() == [(logs.name, "failure")]
