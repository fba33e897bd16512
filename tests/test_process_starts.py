"""Every started process imports its code from the installation, whatever files are in the working folder."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.source_tree import LAYERS, trees

RUNS = "open('EXECUTED', 'a').write(__file__ + chr(10))\n"
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a module for every name that Python, Fullpass and the libraries could import."""
    folder = tmp_path_factory.mktemp("hostile")
    installed = {path.stem for path in Path(json.__file__).parents[1].iterdir()}
    libraries = {path.name.partition(".")[0] for path in Path(pytest.__file__).parents[1].iterdir()}
    for name in sorted(sys.stdlib_module_names | installed | libraries | set(LAYERS) | {"sitecustomize", "tests"}):
        if name.isidentifier() and name not in ("fullpass", "__pycache__"):
            (folder / f"{name}.py").write_text(RUNS)
    assert (
        (folder / "statistics.py").exists()
        and (folder / "tensorflow.py").exists()
        and (folder / "pipeline.py").exists()
    )
    return folder


STARTS = {
    "the program": [str(BIN / "fullpass"), "version"],
    "python -m": [sys.executable, "-m", "fullpass", "version"],
    "a check": [sys.executable, "-P", "-m", "fullpass", "check", str(REPOSITORY / "examples/taxi/pipeline.yaml")],
    "a node on Kubeflow": ["python", "-P", "-m", "fullpass.kubeflow.runtime.entrypoint", "--help"],
    "a look-up on Kubeflow": ["python", "-P", "-m", "fullpass.kubeflow.runtime.lookup", "--help"],
    "a worker on Kubeflow": ["python", "-P", "-m", "fullpass.kubeflow.runtime.worker_entrypoint", "--help"],
    "its launcher": ["python", "-P", "-m", "fullpass.kubeflow.runtime.worker_launcher", "--help"],
    "drift": [sys.executable, "-P", "-m", "fullpass.pipeline.scheduling.drift", "{"],
}


@pytest.mark.integration
@pytest.mark.parametrize("start", ["the program", "python -m", "a node on Kubeflow", "a look-up on Kubeflow"])
def test_nothing_of_the_working_folder_is_executed(hostile, start, monkeypatch):
    _start(hostile, start, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("start", ["a check", "a worker on Kubeflow", "its launcher", "drift"])
def test_nothing_of_the_working_folder_is_executed_by_the_others(hostile, start, monkeypatch):
    _start(hostile, start, monkeypatch)


def _start(hostile, start, monkeypatch):
    monkeypatch.setenv("PATH", f"{BIN}:/usr/bin:/bin")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    done = subprocess.run(STARTS[start], cwd=hostile, capture_output=True, text=True, timeout=120, check=False)
    executed = hostile / "EXECUTED"
    assert not executed.exists(), executed.read_text()
    # The variables and arguments of a pod are not set, so these two commands fail after their imports.
    ends = {"drift": "JSONDecodeError", "a worker on Kubeflow": "KeyError: 'FULLPASS_JOB'"}
    assert done.returncode == 0 or (start in ends and ends[start] in done.stderr), done.stderr


def test_the_containers_are_started_as_tested():
    from fullpass.kubeflow import protocol
    from fullpass.kubeflow.runtime import worker_launcher

    commands = (
        protocol.NODE_COMMAND,
        protocol.LOOKUP_COMMAND,
        protocol.WORKER_LAUNCHER_COMMAND,
        worker_launcher.COMMAND,
    )
    for command in commands:
        assert [*command, "--help"] in STARTS.values()


@pytest.mark.integration
def test_every_python_that_is_started_searches_no_working_folder():
    """In a list or tuple that starts with Python, -P or -I follows; the image sets PYTHONSAFEPATH for all others."""
    lacking = []
    for path, tree in trees("executable|python"):
        for node in ast.walk(tree):
            if isinstance(node, ast.List | ast.Tuple) and node.elts and _is_python(node.elts[0]):
                option = node.elts[1] if len(node.elts) > 1 else None
                if not (isinstance(option, ast.Constant) and option.value in ("-P", "-I")):
                    lacking.append(f"{path}:{node.lineno}")
    assert lacking == []
    environment = re.search(r"(?s)ENV PATH=.*?\n[A-Z]+ ", (REPOSITORY / "kubeflow" / "Dockerfile").read_text())
    assert environment and "PYTHONSAFEPATH=1" in environment[0]


def _is_python(node):
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) == "sys.executable"
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"python[\d.]*", node.value)
