"""docs/add-a-transform.md, followed to the letter in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "add-a-transform.md"


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


@pytest.mark.integration
def test_the_page_works_as_written(tmp_path):
    shutil.copytree(ROOT / "preprocessing", tmp_path / "preprocessing")
    for file in ("pyproject.toml", "tests/conftest.py", "tests/preprocessing/conftest.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    shutil.copy(ROOT / "tests/preprocessing/test_preprocessing_fn.py", tmp_path / "tests/preprocessing")
    for language, file, text in blocks():
        if language == "diff":
            apply_diff(tmp_path / file, text)
        else:
            (tmp_path / file).write_text(text, encoding="utf-8")
    chosen = ["tests/preprocessing/test_robust_scale.py", "tests/preprocessing/test_preprocessing_fn.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "robust_scale or every_member", *chosen],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^2 passed", done.stdout, re.MULTILINE)
