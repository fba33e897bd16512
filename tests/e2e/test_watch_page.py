"""Runs the commands of docs/watch.md, from a server to a model that the watch has asked for."""

import os
import re
import signal
import socket
import subprocess
from datetime import UTC, datetime

import pytest

from tests import REPOSITORY, warm_process
from tests.e2e.conftest import BIN
from tests.e2e.test_tutorial import BLOCK, shape

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PAGE = REPOSITORY / "docs" / "watch.md"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_the_commands_of_the_page_lead_from_serve_to_a_retrained_model(tmp_path, tmp_path_factory):
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    programs = tmp_path_factory.mktemp("bin")
    warm_process.program(programs, BIN / "fullpass")
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    port = str(free_port())
    script = "".join(text for kind, text in blocks if kind == "bash").replace("8501", port)
    script = script.replace("fullpass serve serving", f"{BIN}/fullpass serve serving --port {port}")
    environment = {**os.environ, "PATH": f"{programs}:{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}
    running = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        printed, _ = running.communicate(timeout=900)
    finally:
        try:
            os.killpg(running.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert running.returncode == 0, printed
    said = [shape(line) for line in printed.splitlines()]
    for kind, text in blocks:
        for expected in map(shape, text.splitlines() if kind == "text" else ()):
            assert any(line.startswith(expected) for line in said), f"{expected!r} is not in:\n{printed}"

    lineage = printed.rpartition("a run is requested")[2]
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert re.search(rf"watch 1: live since {today}: auc is", lineage), printed
    assert len([one for one in (tmp_path / "orders/serving").iterdir() if one.name.isdigit()]) == 2
    index = (tmp_path / "orders/runs/orders/index.html").read_text()
    assert 'href="watch/watch.html"' in index
