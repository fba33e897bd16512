"""The mark of a folder that belongs to one pipeline: a text file that says why, and names the pipeline."""

import re
from pathlib import Path

_OWNER = re.compile(r"^pipeline: (?P<name>\S+)$", re.MULTILINE)


def read_owner(mark: Path) -> str | None:
    """Returns the pipeline that a mark names; None if there is no mark, or it names none."""
    owner = _OWNER.search(mark.read_text(encoding="utf-8", errors="replace")) if mark.is_file() else None
    return owner and owner["name"]


def write_owner(mark: Path, why: str, name: str) -> None:
    """Writes a mark. why: A sentence for people who open the file."""
    mark.write_text(f"{why}\npipeline: {name}\n", encoding="utf-8")
