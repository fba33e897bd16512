"""Writes files atomically: a reader finds either the old or the new content, complete."""

import os
from pathlib import Path


def write_atomically(file: Path, content: str | bytes) -> None:
    """Writes a local file under a temporary name and then renames it; text is written as UTF-8."""
    pending = file.with_name(f".{file.name}.{os.getpid()}.part")
    pending.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(pending, file)
