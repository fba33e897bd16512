"""Failures to read a source: they name the file, what was expected, and what to do."""

import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean
from fullpass.components.ingest.readers.crashes import noted
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.storage import state_of

_SELF_EXPLANATORY_ERRORS = (pa.ArrowException, OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile)


class EmptyFileError(UserError):
    """A file has not even the header line that its format begins with."""


@contextmanager
def readable(path: str, reading: Reading | None = None, state: Callable[[str], str] = state_of) -> Iterator[None]:
    """Turns a failure to read or decompress into an error that names the file. Keeps a note of the file for crashes.

    Decoders raise many types of errors for a damaged file, such as KeyError; for these, the message contains the type.

    Args:
        reading: The part that is read; afterwards the file must be as it was when it was found and its parts planned.

    Raises:
        UserError: The file cannot be read, or has changed.
    """
    before = {reading.file.state, reading.part.state} - {""} if reading is not None else set()
    try:
        with noted(path):
            yield
        if before:
            _check_unchanged(path, before, state)
    except UserError:
        raise
    except Exception as error:
        if "arrow.py_extension_type" in str(error):  # the rest of the message shows the code
            raise UserError(
                f"{path}: not read, because its schema holds Python code, which Arrow would run (the type "
                "arrow.py_extension_type, CVE-2023-47248). Write the file again with the plain type of the column: its "
                "`storage` in pyarrow."
            ) from None
        if before:
            _check_unchanged(path, before, state)
        message = f"{error}" if isinstance(error, _SELF_EXPLANATORY_ERRORS) else f"{type(error).__name__}: {error}"
        raise UserError(
            f"{path}: reading stopped: {message}. Is the file cut short, in another format than its name suggests, or "
            f"written by newer software (read by pyarrow {pa.__version__})?"
        ) from error


def _check_unchanged(path: str, before: Set[str], state: Callable[[str], str]) -> None:
    now = state(path)
    if before == {now}:
        return
    was, size = min(before).partition(" ")[0], now.partition(" ")[0]
    changed = f"{was} bytes before, {size} now" if was.isdigit() and was != size else "its time is another"
    raise UserError(
        f"{path}: changed while it was read ({changed if now else 'it is gone'}). Some of its rows would be missing or "
        "from two versions. Run again when it is complete. Write new data under another name, and rename it when it is "
        "whole."
    )


def check_columns(path: str, needed: Sequence[str], present: Sequence[str]) -> None:
    """Checks that each needed column is present exactly once.

    Raises:
        UserError: A column is absent from the file, or is in it twice.
    """
    found = Counter(present)
    for column in needed:
        if column not in found:
            raise UserError(
                f"{path}: no column {column!r}.{did_you_mean(column, present)} "
                f"Columns of the file: {', '.join(present)}. If it was renamed, rename it back, or read the files "
                "with each name in a separate pipeline."
            )
        if found[column] > 1:
            raise UserError(f"{path}: column {column!r} appears twice; rename one.")


def load_package(module: str, *, package: str, needed_by: str) -> Any:
    """Returns a module of a package that only some sources need.

    Raises:
        UserError: The package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{needed_by} needs the Python package {package}, which is not installed here ({error}). "
            f"Install fullpass[sources], or {package} alone."
        ) from error
