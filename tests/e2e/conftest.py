"""One run of the taxi example, shared by the tests of its outputs."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fullpass.pipeline.registry.locate_model import read_lineage
from tests import REPOSITORY, warm_process

BIN = Path(sys.executable).parent


def run_command(*command, cwd=None, env=None, timeout=280, fresh=False):
    """Runs a command of the environment and returns the completed process.

    Args:
        fresh: Whether to start a new interpreter, as a user's shell does. By default the command runs as a fork of a
            process that has imported TFX.
    """
    whole = {**os.environ, **(env or {})}
    arguments = [str(BIN / command[0]), *map(str, command[1:])]
    if not fresh:
        return warm_process.run(arguments, cwd=cwd, env=whole, timeout=timeout)
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
        return json.loads((newest / "run.json").read_text())

    def artifact(self, node, output):
        """Returns the folder of a node's newest output artifact."""
        return sorted((self.root / node / output).iterdir(), key=lambda p: int(p.name))[-1]

    def version(self):
        return (self.folder / "serving" / "current").resolve()


class Owner:
    """A user with a folder, a pipeline YAML in it, and the command line. name: name of the pipeline."""

    def __init__(self, folder: Path, name: str, yaml: str):
        self.folder, self.root, self.serving = folder, folder / "runs" / name, folder / "serving"
        self.config = folder / "pipeline.yaml"
        self.config.write_text(yaml)

    def run(self, *words):
        return run_command("fullpass", *words, cwd=self.folder, timeout=550)

    def __call__(self, *words) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def summary(self) -> dict:
        return json.loads((max((self.root / "logs").iterdir()) / "run.json").read_text())

    def say(self, *words):
        return json.loads(self(*words, "--json"))

    def lineage(self, model) -> dict:
        """Returns the output of `fullpass lineage --json`, without starting a process."""
        told = read_lineage(str(model), self.config)
        return {"source": told.source, **told.lineage}

    def versions(self) -> list[Path]:
        return sorted((f for f in self.serving.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def fullpass():
    return run_command


@pytest.fixture(scope="session")
def taxi(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taxi")
    for name in ("pipeline.yaml", "three_trips.jsonl"):
        shutil.copy(REPOSITORY / "examples" / "taxi" / name, folder / name)
    with (folder / "pipeline.yaml").open("a") as file:
        file.write("mlflow: {experiment: trips}\n")
    store = {"MLFLOW_TRACKING_URI": (folder / "mlruns").as_uri(), "MLFLOW_ALLOW_FILE_STORE": "true"}
    done = run_command("fullpass", "run", folder / "pipeline.yaml", env=store, fresh=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(folder, done)
