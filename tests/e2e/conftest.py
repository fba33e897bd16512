"""One run of the taxi example, shared by the tests that look at what came out of it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run_command(*command, cwd=None, env=None, timeout=900):
    """Runs a command of the environment and returns it, done."""
    whole = {**os.environ, **(env or {})}
    arguments = [str(BIN / command[0]), *map(str, command[1:])]
    return subprocess.run(arguments, cwd=cwd, env=whole, capture_output=True, text=True, timeout=timeout, check=False)


@dataclass(frozen=True)
class Ran:
    folder: Path
    done: subprocess.CompletedProcess

    @property
    def config(self):
        return self.folder / "pipeline.yaml"

    @property
    def root(self):
        return self.folder / "runs" / "taxi"

    def summary(self):
        newest = sorted((self.root / "logs").iterdir())[-1]
        return json.loads((newest / "summary.json").read_text())

    def artifact(self, node, output):
        """Folder of a node's newest output."""
        return sorted((self.root / node / output).iterdir(), key=lambda p: int(p.name))[-1]

    def version(self):
        return (self.folder / "serving" / "current").resolve()


@pytest.fixture(scope="session")
def fullpass():
    return run_command


@pytest.fixture(scope="session")
def taxi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taxi")
    for name in ("pipeline.yaml", "three_trips.jsonl"):
        shutil.copy(REPOSITORY / "examples" / "taxi" / name, folder / name)
    done = run_command("fullpass", "run", folder / "pipeline.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(folder, done)
