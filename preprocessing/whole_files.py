"""Files that a reader finds as they were or as they are now, each whole."""

import os
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Writes a local file under another name first, and then renames it; text is written as UTF-8."""
    pending = file.with_name(f".{file.name}.{os.getpid()}.part")
    pending.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(pending, file)
