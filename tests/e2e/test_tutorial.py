"""Runs every command of docs/tutorial.md in the order of the page and compares its output with the page."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import REPOSITORY, warm_process
from tests.e2e.conftest import BIN

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PAGE = REPOSITORY / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shape(line: str) -> str:
    """Returns a line without its numbers and column widths, which depend on the machine."""
    return " ".join(re.sub(r"\d[\d,.:-]*", "N", line).split())


def served(folder: Path) -> str | None:
    """Returns the served version, or None."""
    current = folder / "serving" / "pipeline" / "current"
    return current.resolve().name if current.exists() else None


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path, tmp_path_factory):
    programs = tmp_path_factory.mktemp("bin")
    warm_process.program(programs, BIN / "fullpass")
    environment = {**os.environ, "PATH": f"{programs}:{BIN}:{os.environ['PATH']}", "COLUMNS": "160"}
    printed, answers, models, before = "", {}, [], set()
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "text":
            lines = {shape(line) for line in printed.splitlines()}
            for expected in map(shape, text.splitlines()):
                assert any(line.startswith(expected) for line in lines), f"{expected!r} is not in:\n{printed}"
            continue
        before = files(tmp_path)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        printed = done.stdout
        answers[text.splitlines()[-1]] = printed
        models.append(served(tmp_path))

    first, second = sorted(set(filter(None, models)))
    order = [model for model, before in zip(models, [None, *models], strict=False) if model and model != before]
    assert order == [first, second, first], "the first model, the retrained one, and the first again"

    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    assert all(row["probability_0"] + row["probability_1"] == pytest.approx(1, abs=1e-5) for row in rows)
    listed = answers["fullpass models"]
    assert re.search(rf"{second}\b.*put aside.*2014-08 to 2015-01", listed), listed
    assert re.search(rf"{first}\b.*served.*2014-07 to 2014-12", listed), listed
    last = text.splitlines()[-1]
    assert "--dry-run" in last and "Would free" in answers[last]
    assert before <= files(tmp_path), "a dry run deletes nothing"
