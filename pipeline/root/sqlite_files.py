"""Opens the SQLite files of a root, seals them with a checksum, and refuses damaged ones with their path.

A seal is a state file beside the SQLite file. It holds SQLite's own change counter, the size and the CRC-32C of the
whole file, and is written after a change. A file with the counter of its seal but different content is damaged. A file
with another counter was written after its seal, by a run that was killed or by another program; then only SQLite's own
check applies.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import google_crc32c

from fullpass.base import state_file
from fullpass.base.state_file import DamagedState
from fullpass.pipeline.root.layout import seal_of

METADATA_DAMAGED = "Put it back from a copy, or give the next run a new root (--root); pushed models are still served."
HISTORY_DAMAGED = (
    "Put it back from a copy, or remove it: a new one is created, and a schedule may train again on data that it has "
    "trained on."
)
_BUSY_SECONDS = 60
_DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_MAGIC = b"SQLite format 3\0"
_COUNTER = slice(24, 28)


@dataclass(frozen=True)
class _Seal:
    changes: int
    bytes: int
    crc32c: int


def is_database(file: Path) -> bool:
    """Returns whether a file exists and begins like a SQLite file."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


@contextmanager
def opened(file: Path, what_to_do: str, mode: Literal["rwc", "rw"] = "rw") -> Iterator[sqlite3.Connection]:
    """Opens a SQLite file.

    Args:
        file: Its path.
        what_to_do: The advice in the message if the file is damaged.
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
        if code in _DAMAGED_CODES or str(error).startswith(("no such table", "no such column")):
            raise DamagedState(f"{file} is damaged: {error}. {what_to_do}") from error
        raise
    except UnicodeDecodeError as error:  # from SQLite's own message, which quotes the damaged text
        raise DamagedState(f"{file} is damaged: it contains text that is not UTF-8. {what_to_do}") from error


def seal(file: Path) -> None:
    """Writes the seal for the current content of a SQLite file."""
    with _read_locked(file, "") as content:
        state_file.write(seal_of(file), asdict(_sealed(content)))


def verify(file: Path, what_to_do: str) -> None:
    """Checks a SQLite file against its seal, if the file exists.

    Raises:
        DamagedState: The content of the file is damaged.
    """
    if not file.is_file() or not (file.stat().st_size or seal_of(file).exists()):
        return
    with _read_locked(file, what_to_do) as content:
        try:
            known = state_file.read_as(_Seal, seal_of(file), "")
        except (FileNotFoundError, DamagedState):
            return
        found = _sealed(content)
        if found != known and found.changes == known.changes:
            raise DamagedState(f"{file} is damaged: its content is not what was written. {what_to_do}")


def state_of(file: Path) -> str:
    """Returns a text that changes with every change of a SQLite file; no process may be writing the file."""
    return "-".join(map(str, asdict(_sealed(file.read_bytes())).values()))


@contextmanager
def _read_locked(file: Path, what_to_do: str) -> Iterator[bytes]:
    """Yields the content of a SQLite file that passes SQLite's check, and blocks changes by other processes."""
    with opened(file, what_to_do) as database:
        database.execute("BEGIN")
        found = [text for (text,) in database.execute("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            raise DamagedState(f"{file} is damaged: {' '.join(found[0].split())}. {what_to_do}")
        content = file.read_bytes()
        if not content.startswith(_MAGIC):
            raise DamagedState(f"{file} is damaged: it is {'cut short' if content else 'empty'}. {what_to_do}")
        yield content


def _sealed(content: bytes) -> _Seal:
    return _Seal(int.from_bytes(content[_COUNTER], "big"), len(content), google_crc32c.value(content))
