"""Reads folders with one subfolder of files per class. Each file is a row; rows are numbered in the order of paths."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from fullpass.components.ingest.readers.objects import rows_from_dicts
from fullpass.components.ingest.readers.rows import PART_BYTES, FilePart, Reading, Rows
from fullpass.components.ingest.sources.storage import Found, digest_of, find

_BATCH_BYTES = 16 << 20
_BATCH_FILES = 256
"""Bytes or files of a batch: decoded images take several times their bytes in memory."""


def folder_parts(folder: str, endings: Sequence[str]) -> list[FilePart]:
    """Returns ranges of files of about `PART_BYTES`."""
    parts: list[FilePart] = []
    begin, size = 0, 0
    files = find(folder, endings)
    state = digest_of(files)
    for i, file in enumerate(files):
        size += file.size
        if size >= PART_BYTES or i == len(files) - 1:
            parts.append(FilePart(begin, i + 1, begin + 1, state))
            begin, size = i + 1, 0
    return parts


def folder_rows(
    folder: str, endings: Sequence[str], reading: Reading, read: Callable[[Found], Mapping[str, Any]]
) -> Iterator[Rows]:
    """Yields a row per file of a part.

    Args:
        read: Returns the columns of one file; raises ValueError if the file is not readable.
    """
    files = list(enumerate(find(folder, endings), start=1))[reading.part.begin or 0 : reading.part.end]
    yield from file_rows([(number, file, _columns(folder, file)) for number, file in files], reading, read)


def file_rows(
    files: Sequence[tuple[int, Found, Mapping[str, Any]]], reading: Reading, read: Callable[[Found], Mapping[str, Any]]
) -> Iterator[Rows]:
    """Yields a row per file, with the columns that `read` returns and the given further columns.

    Args:
        files: Row number, file and further columns of each row.
        read: As in `folder_rows`.
    """
    rows: list[Mapping[str, Any]] = []
    numbers: list[int] = []
    size = 0
    for number, file, columns in files:
        try:
            row = {**columns, **read(file)}
        except (ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            reading.add_malformed(number, f"cannot be read: {error}", file.path)
            continue
        rows.append(row)
        numbers.append(number)
        size += sum(len(value) for value in row.values() if isinstance(value, bytes | str | np.ndarray))
        if size >= _BATCH_BYTES or len(rows) == _BATCH_FILES:
            yield rows_from_dicts(rows, np.array(numbers, dtype=np.int64), reading)
            rows, numbers, size = [], [], 0
    if rows:
        yield rows_from_dicts(rows, np.array(numbers, dtype=np.int64), reading)


def _columns(folder: str, file: Found) -> dict[str, str]:
    if "://" in folder:
        inside = PurePath(file.path.removeprefix(folder.rstrip("/") + "/"))
    else:
        inside = PurePath(file.path).relative_to(PurePath(folder))
    return {"label": inside.parent.name, "file": str(inside)}
