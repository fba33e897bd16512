"""Runs a pipeline once, and a twin of it repeatedly, killing the next node with kill -9 in each run of the twin.

    python kills.py PIPELINE.yaml TWIN.yaml OUTCOME.json

Each run is a fork of this process, which has imported TFX and computed nothing. In the fork, the node's process watches
the folders that the node writes to. It kills itself when the first file appears there, so the outputs are half written.
A node that writes no file is killed after it has recorded its end. The outcome of each run goes to OUTCOME.json.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from tfx.orchestration.portable import launcher

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.events import new_run_id
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.layout import pipeline_root
from fullpass.pipeline.running.build import build
from fullpass.pipeline.running.execution import runner
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.startup import set_environment

LIMIT_SECONDS = 300
# The nodes for which unrecorded finished work is most harmful: spans ingested twice, models pushed twice.
UNRECORDED = ("Ingest", "Pusher")
# The runner is killed with this node.
WITH_RUNNER = "Trainer"


def files_of(loaded, node: str) -> set[Path]:
    """Returns the files that a node wrote into its outputs or into the folder of pushed models."""
    folders = [folder for folder in (pipeline_root(loaded) / node).glob("[!.]*")]
    folders += [Path(loaded.resolve(loaded.config.push.to))] if node == "Pusher" else []
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def kill_at_first_file(loaded, node: str, before: set[Path], runner_too: bool) -> None:
    while not files_of(loaded, node) - before:
        time.sleep(0.001)
    if runner_too:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself(*arguments, **options) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(loaded, victim: str | None, how: str) -> dict[str, str]:
    """Runs the pipeline in this process; returns the outcome of each node."""
    launch = runner.launch

    def watched(node, *arguments):
        if node.node_info.id != victim:
            return launch(node, *arguments)
        if how == "unrecorded":
            launcher.execution_publish_utils.publish_succeeded_execution = kill_itself
        else:
            given = (loaded, victim, files_of(loaded, victim), how == "with its runner")
            threading.Thread(target=kill_at_first_file, args=given, daemon=True).start()
        launch(node, *arguments)
        return kill_itself()

    runner.launch = watched
    root, run_id = pipeline_root(loaded), new_run_id()
    with locks.run_lock(root, wait=True):
        request = RunRequest(parallel=1)
        result = runner.run(build(loaded, root=root), request, log_dir=root / "logs" / run_id, run_id=run_id)
    return {node.id: str(node.status) for node in result.nodes}


def forked(loaded, victim: str | None, how: str = "") -> dict[str, str] | int:
    """Runs the pipeline in a fork; returns the outcome of each node, or the signal that ended the runner."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(run(loaded, victim, how)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + LIMIT_SECONDS
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(ended[1])
    with open(reading) as pipe:
        return json.loads(pipe.read()) if code == 0 else code


def main(undisturbed: str, killed: str, outcome: str) -> None:
    set_environment()
    twin = load(Path(undisturbed))
    runs = [{"killed": None, "how": "undisturbed", "nodes": forked(twin, None)}]
    loaded = load(Path(killed))
    for node in build(loaded, root=pipeline_root(loaded)).components:
        hows = ["half written"]
        hows += ["unrecorded"] * (node.id in UNRECORDED) + ["with its runner"] * (node.id == WITH_RUNNER)
        runs += [{"killed": node.id, "how": how, "nodes": forked(loaded, node.id, how)} for how in hows]
    runs.append({"killed": None, "how": "at last", "nodes": forked(loaded, None)})
    Path(outcome).write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
