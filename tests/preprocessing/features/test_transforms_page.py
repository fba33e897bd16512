"""Follows docs/add-a-transform.md literally in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests import REPOSITORY

PAGE = REPOSITORY / "docs" / "add-a-transform.md"


def blocks():
    """Yields (language, file, text) of every code block that names a file."""
    found = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, "no code block names a file"
    return found


def apply_diff(path, diff):
    lines = diff.splitlines()
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} has {text.count(before)} times: {before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def commands():
    """Yields the commands of the page, adapted to this Python and the installed packages."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        make = line.replace("make ", f"make --assume-old=env VENV_PYTHON={sys.executable} ")
        yield make.replace(".venv/bin/pytest", f"{sys.executable} -m pytest")


def copy_project(folder):
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    for file in files:
        if os.path.lexists(REPOSITORY / file):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / file, folder / file, follow_symlinks=False)


@pytest.mark.long
@pytest.mark.integration
def test_the_page_works_as_written(tmp_path):
    copy_project(tmp_path)
    # With PYTHONSAFEPATH, Python would import this project instead of the copy in the working folder.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    environment |= {"PYTHONPATH": str(tmp_path), "PYTEST_ADDOPTS": ""}
    places = 0
    for language, file, text in blocks():
        if language == "diff":
            apply_diff(tmp_path / file, text)
            places += 1
        else:
            (tmp_path / file).write_text(text, encoding="utf-8")
    assert places == 3, "a transform is a class, a line in a union, and a function"
    outputs = []
    for command in commands():
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        outputs.append(done.stdout)
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-2000:]}"
    assert "### robust_scale\n" in (tmp_path / "docs/transforms.md").read_text(encoding="utf-8")
    assert "robust_scale" in (tmp_path / "tests/golden/pipeline_schema.json").read_text(encoding="utf-8")
    assert [re.search(r"(\d+) passed", output)[1] for output in outputs[2:]] == ["5"], (
        "its own test, and four that ask for each transform"
    )
