"""A copy of the source, changed by a test, and what its code answers: for tests that add a format, a loss and so on."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import REPOSITORY


def copy_source(folder: Path) -> Path:
    """Copies the source into a folder, and returns the folder of the copied package `fullpass`."""
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(REPOSITORY / "fullpass", folder / "fullpass", ignore=ignore))


def follow_page(source: Path, page: str, section: str) -> set[str]:
    """Makes the changes of a section of a page of docs/ on a copied source, and returns the files that they touch.

    The first line of a code block names its language and the file. A `diff` has lines to find once, to add (+) and to
    remove (-); any other block is a whole file.
    """
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8").partition(f"\n## {section}")[2]
    blocks = re.findall(r"^```(\w+) (\S+)\n(.*?)^```$", text.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    for language, name, block in blocks:
        if language == "diff":
            _apply_diff(source / name, block.splitlines())
        else:
            (source / name).write_text(block, encoding="utf-8")
    return {name for _, name, _ in blocks}


def _apply_diff(path: Path, lines: Sequence[str]) -> None:
    before, after = ("\n".join(line[1:] for line in lines if line[0] != mark) for mark in "+-")
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} has {text.count(before)} times: {before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def insert_lines(source: Path, places: Sequence[tuple[str, str, str]]) -> int:
    """Changes places of a copied source, and returns their number.

    Args:
        places: File of the package, a text that it has once, and the text to insert before it.
    """
    for name, before, added in places:
        text = (source / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name} has {text.count(before)} times: {before}"
        (source / name).write_text(text.replace(before, added + before), encoding="utf-8")
    return len(places)


def answers_of(program: str, folder: Path) -> dict[str, Any]:
    """Runs a program with the copied source in a folder, and returns the JSON object that it prints last.

    The program has the copied package as `fullpass`.
    """
    told = f"import fullpass\nassert fullpass.__file__.startswith({str(folder)!r})\n{program}"
    command = [sys.executable, "-c", told]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
