"""Opens the SQLite files of a root, and refuses damaged ones with their path."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import google_crc32c

from fullpass.base.state_file import DamagedState

METADATA_DAMAGED = "Put it back from a copy, or give the next run a new root (--root); pushed models are still served."
HISTORY_DAMAGED = (
    "Put it back from a copy, or remove it: a new one is created, and a schedule may train again on data that it has "
    "trained on."
)
_BUSY_SECONDS = 60
"""Seconds that a writer waits for another one, whose transactions take milliseconds."""
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DAMAGED_TEXTS = ("no such table", "no such column", "Could not decode to UTF-8")
_MAGIC = b"SQLite format 3\0"


def is_database(file: Path) -> bool:
    """Returns whether a file exists and begins like a SQLite file."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


@contextmanager
def open_sqlite(file: Path, what_to_do: str, mode: Literal["rwc", "rw"] = "rw") -> Iterator[sqlite3.Connection]:
    """Opens a SQLite file.

    Args:
        mode: `rwc` creates the file if it is missing.

    Raises:
        DamagedState: The file is damaged, no SQLite file, or has other tables.
    """
    try:
        address = f"{file.absolute().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as database:
            yield database
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED_CODES or str(error).startswith(_DAMAGED_TEXTS):
            raise DamagedState(f"{file} is damaged: {error}. {what_to_do}") from error
        raise
    except UnicodeDecodeError as error:  # from SQLite's own message, which quotes the damaged text
        raise DamagedState(f"{file} is damaged: it contains text that is not UTF-8. {what_to_do}") from error


def verify(file: Path, what_to_do: str) -> None:
    """Checks a SQLite file with SQLite's `quick_check`, if the file exists and is not empty.

    Raises:
        DamagedState: The file is damaged.
    """
    if not file.is_file() or not file.stat().st_size:
        return
    with open_sqlite(file, what_to_do) as database:
        found = [text for (text,) in database.execute("PRAGMA quick_check(1)")]
    if found != ["ok"] or not is_database(file):  # SQLite takes a file of a few bytes for an empty one
        why = "it is cut short" if found == ["ok"] else " ".join(found[0].split())
        raise DamagedState(f"{file} is damaged: {why}. {what_to_do}")


def sqlite_state(file: Path) -> str:
    """Returns a text that changes with every change of a SQLite file; no process may be writing the file."""
    content = file.read_bytes()
    change_counter = int.from_bytes(content[24:28], "big")
    return f"{change_counter}-{len(content)}-{google_crc32c.value(content)}"
