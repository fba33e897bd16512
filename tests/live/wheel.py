"""`make check-wheel`: installs the wheel with its extras into a clean environment, and runs the demo from there."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import REPOSITORY
from tests.live.servers import needed
from tests.test_wheel import checkout, wheel  # noqa: F401  fixtures

FOR_DEVELOPERS = {"dev", "bench"}
SECONDS = 1200
pytestmark = pytest.mark.timeout(SECONDS)


def extras() -> dict[str, list[Requirement]]:
    """The requirements of each extra that users install, for this Python."""
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {name: list(map(Requirement, lines)) for name, lines in declared.items() if name not in FOR_DEVELOPERS}
    return {name: [r for r in all_ if r.marker is None or r.marker.evaluate()] for name, all_ in found.items()}


def run(*command: object, cwd: Path) -> str:
    """Returns what a command printed, without the variables that would lead it to this checkout."""
    outside = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=outside, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Iterator[Path]:  # noqa: F811
    """The folder of the programs of an environment that holds the wheel, its extras, and nothing else."""
    uv, folder = needed("UV", "Give the program uv."), tmp_path_factory.mktemp("installed")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    began = time.monotonic()
    run(uv, "venv", "--quiet", "--python", python, folder / "env", cwd=folder)
    what = f"fullpass[{','.join(extras())}] @ {wheel.as_uri()}"
    run(uv, "pip", "install", "--quiet", "--python", folder / "env/bin/python", what, cwd=folder)
    print(f"installed in {time.monotonic() - began:.0f} s")
    yield folder / "env" / "bin"
    shutil.rmtree(folder / "env")


def test_the_extras_are_there_and_the_package_is_that_of_the_wheel(installed, tmp_path):
    names = sorted({requirement.name for all_ in extras().values() for requirement in all_})
    code = "import importlib.metadata as m, json, sys, fullpass\n"
    code += "print(json.dumps([fullpass.__file__, {name: m.version(name) for name in sys.argv[1:]}]))"
    file, versions = json.loads(run(installed / "python", "-c", code, *names, cwd=tmp_path))
    assert Path(file).is_relative_to(installed.parent)
    for requirement in (requirement for all_ in extras().values() for requirement in all_):
        assert versions[requirement.name] in requirement.specifier
    own = importlib.metadata.version("fullpass")
    assert run(installed / "fullpass", "--version", cwd=tmp_path) == f"fullpass {own}\n"


def test_the_demo_runs_from_the_wheel(installed, tmp_path):
    for file in (REPOSITORY / "examples" / "taxi").glob("*.*"):
        shutil.copy(file, tmp_path)
    said = run(installed / "fullpass", "run", "pipeline.yaml", cwd=tmp_path)
    assert "Blessed and pushed to" in said
    page = Path(run(installed / "fullpass", "report", cwd=tmp_path).strip())
    assert page.read_text(encoding="utf-8").count('<figure class="chart"') > 10
    rows = run(installed / "fullpass", "predict", "serving", "three_trips.jsonl", cwd=tmp_path).splitlines()
    assert [json.loads(row)["prediction"] in ("0", "1") for row in rows] == [True] * 3
