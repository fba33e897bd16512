"""JSON lines."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from components.ingest.files import SourceFile
from components.ingest.readers.lines import line_parts, numbered_lines
from components.ingest.readers.objects import rows_of
from components.ingest.reading import BATCH_ROWS, Part, Reading, Rows, readable
from components.ingest.sources import JsonLinesSource


class JsonLinesReader:
    """See `Reader`. Rows are numbered by line; blank lines are none."""

    def __init__(self, file: SourceFile, source: JsonLinesSource):
        self._file = file

    def columns(self) -> None:
        """See base class. Any line may hold further keys."""
        return None

    def parts(self) -> list[Part]:
        """See base class."""
        with readable(self._file.path):
            return line_parts(
                self._file.path, self._file.size, count=lambda data: data.count(b"\n"), splittable=lambda _: True
            )

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        objects: list[dict[str, Any]] = []
        numbers: list[int] = []
        with readable(self._file.path):
            for number, line in numbered_lines(self._file.path, reading, "utf-8"):
                row = _object(reading, number, line) if line.strip() else None
                if row is not None:
                    objects.append(row)
                    numbers.append(number)
                if len(objects) == BATCH_ROWS:
                    yield rows_of(objects, np.array(numbers, dtype=np.int64), reading)
                    objects, numbers = [], []
        if objects:
            yield rows_of(objects, np.array(numbers, dtype=np.int64), reading)


def _object(reading: Reading, number: int, line: bytes) -> dict[str, Any] | None:
    text = line.decode("utf-8", "replace")
    try:
        row = json.loads(line)
        if b"\\u" in line:
            json.dumps(row, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        reading.add_malformed(number, f"not UTF-8: {error.reason}", text)
        return None
    except (ValueError, RecursionError) as error:
        reading.add_malformed(number, f"no JSON: {error}", text)
        return None
    if not isinstance(row, dict):
        reading.add_malformed(number, "no JSON object", text)
        return None
    return row
