"""Reads and writes whole files: local ones directly, those at an address through TFX, whose import loads TensorFlow.

A file is written atomically: a reader finds either the old or the new content, complete.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote, urlsplit


def is_address(path: str) -> bool:
    """Returns whether `path` is an address such as s3://bucket/file, rather than a local path."""
    return "://" in path


def local_path(path: str) -> str:
    """Returns the path of a file:// address; any other path is returned unchanged."""
    return unquote(urlsplit(path).path) if path.startswith("file://") else path


PENDING = ".part"
"""How the name of a file ends that is not whole yet."""


@contextmanager
def named_errors(file: Path) -> Iterator[None]:
    """Gives the errors of the enclosed writes the name of a file: that of a full disk has none."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(PENDING):
            error.filename = str(file)
        raise


@contextmanager
def pending_file(file: Path) -> Iterator[Path]:
    """Yields the path under which a local file is written; it gets its name when the block ends.

    If an error ends the block, nothing that was written is left, and an earlier file stays.

    Raises:
        OSError: The disk is full, or the folder cannot be written. Its `filename` is that of the file.
    """
    pending = file.with_name(f".{file.name}.{os.getpid()}{PENDING}")
    try:
        with named_errors(file):
            yield pending
            os.replace(pending, file)
    finally:
        pending.unlink(missing_ok=True)


def write_atomically(file: Path, content: str | bytes) -> None:
    """Writes a local file as `pending_file` does; text is written as UTF-8."""
    with pending_file(file) as pending:
        pending.write_bytes(content.encode() if isinstance(content, str) else content)


def opened(path: str, mode: Literal["rb", "wb"] = "rb") -> IO[bytes]:
    """Returns a file opened for reading or writing.

    Raises:
        OSError: It does not exist, or cannot be read or written.
    """
    if not is_address(path):
        return open(path, mode)
    from tfx.dsl.io import fileio

    if mode == "rb" and not fileio.exists(path):
        raise FileNotFoundError(path)
    return fileio.open(path, mode)


BLOCK_BYTES = 256 << 10
"""Bytes of large files that are written at a time.

Linux keeps the bytes of one large write in huge pages. A virtual machine whose free huge pages belong to its host has
to get them back one by one, which takes ten times the processor seconds of the write.
"""


def write_blocks(file: IO[bytes], content: bytes) -> None:
    """Writes bytes of any number, in blocks of `BLOCK_BYTES`."""
    for start in range(0, len(content), BLOCK_BYTES):
        file.write(content[start : start + BLOCK_BYTES])


def read_bytes(path: str) -> bytes | None:
    """Returns the content of a file, or None if it does not exist."""
    try:
        with opened(path) as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def read_json(path: str) -> Any:
    """Returns the content of a JSON file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    content = read_bytes(path)
    if content is None:
        raise FileNotFoundError(path)
    return json.loads(content)


def names_under(folder: str) -> list[str]:
    """Returns the paths of all files under a folder, relative to it and sorted; empty if it does not exist."""
    if is_address(folder):
        from tfx.dsl.io import fileio

        walked = fileio.walk(folder) if fileio.isdir(folder) else ()
    else:
        walked = os.walk(folder)
    return sorted(os.path.relpath(os.path.join(path, file), folder) for path, _, files in walked for file in files)
