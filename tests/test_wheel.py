"""The installed package has one complete top-level name, which cannot clash with a user's own folders."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import REPOSITORY

pytestmark = pytest.mark.integration

LAYERS = ("preprocessing", "trainer", "components", "pipeline", "kubeflow")
NOT_INSTALLED = {"kubeflow/Dockerfile", "kubeflow/requirements-gpu.txt"}


def run(*command: object, cwd: Path, **variables: str) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=outside | variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if "__pycache__" not in path.parts}


def expected_files() -> set[str]:
    """Returns every file of the layers, below the one top-level name."""
    own = {"fullpass/__init__.py", "fullpass/__main__.py", "fullpass/py.typed"}
    own |= {f"fullpass/base/{name}" for name in files_below(REPOSITORY / "fullpass" / "base")}
    for layer in LAYERS:
        files = {f"{layer}/{name}" for name in files_below(REPOSITORY / layer)} - NOT_INSTALLED
        own |= {f"fullpass/{name}" for name in files}
    return own


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the files that a build reads, so that the build writes nothing into the checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("fullpass", *LAYERS):
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", folder, ".", cwd=checkout)
    (file,) = folder.iterdir()
    return file


def test_the_wheel_holds_one_name_and_all_of_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        (points,) = [archive.read(entry).decode() for entry in entries if entry.filename.endswith("entry_points.txt")]
        (names,) = [archive.read(entry).decode() for entry in entries if entry.filename.endswith("top_level.txt")]
    described = {entry.filename for entry in entries if ".dist-info/" in entry.filename}
    assert {entry.filename for entry in entries} - described == expected_files()
    assert names.split() == ["fullpass"]
    assert "fullpass = fullpass.pipeline.cli:main" in points.splitlines()
    links = [entry.filename for entry in entries if (entry.external_attr >> 16) & 0o170000 == 0o120000]
    assert links == []


@pytest.mark.long
def test_a_wheel_built_from_the_source_distribution_is_the_same(checkout, wheel, tmp_path):
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", code, tmp_path, cwd=checkout).splitlines()[-1]
    with tarfile.open(tmp_path / name) as archive:
        assert [member.name for member in archive.getmembers() if member.issym() or member.islnk()] == []
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    code = code.replace("build_sdist", "build_wheel")
    again = tmp_path / run(sys.executable, "-c", code, tmp_path, cwd=source).splitlines()[-1]

    def contents(file):
        with zipfile.ZipFile(file) as archive:
            return {entry.filename: entry.CRC for entry in archive.infolist() if ".dist-info/" not in entry.filename}

    assert contents(again) == contents(wheel)


def test_the_command_runs_beside_folders_and_modules_of_the_same_names(wheel, tmp_path):
    installed, folder = tmp_path / "installed", tmp_path / "project"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run(*pip, "--target", installed, wheel, cwd=tmp_path)
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == {"fullpass", "bin"}
    shutil.copytree(REPOSITORY / "examples" / "taxi", folder)
    for layer in LAYERS:
        (folder / layer).mkdir()
        (folder / layer / "__init__.py").write_text("raise ImportError('a folder of the user')\n")
    for module in ("pipeline", "statistics", "typing", "logging"):
        (folder / f"{module}.py").write_text("raise ImportError('a module of the user')\n")
    said = run(sys.executable, "-m", "fullpass", "check", "pipeline.yaml", cwd=folder, PYTHONPATH=str(installed))
    assert "taxi: binary label" in said and "No errors" in said
    said = run(installed / "bin" / "fullpass", "check", "pipeline.yaml", cwd=folder, PYTHONPATH=str(installed))
    assert "No errors" in said
