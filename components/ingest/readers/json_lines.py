"""Reads JSON lines."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from fullpass.components.ingest.readers.lines import line_parts, parsed_lines
from fullpass.components.ingest.readers.objects import rows_of
from fullpass.components.ingest.readers.reader import FilePart, Reading, Rows, readable
from fullpass.components.ingest.sources.source_config import JsonLinesSource
from fullpass.components.ingest.sources.source_files import SourceFile


class JsonLinesReader:
    """See `Reader`. Rows are numbered by line; blank lines are skipped."""

    def __init__(self, file: SourceFile, source: JsonLinesSource):
        self._file = file

    def columns(self) -> None:
        """See base class. Returns None, because any line may have further keys."""
        return None

    def parts(self) -> list[FilePart]:
        """See base class."""
        with readable(self._file.path):
            return line_parts(self._file.path, self._file.size)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        with readable(self._file.path, reading):
            for objects, numbers in parsed_lines(self._file.path, reading, "utf-8", partial(_object, reading)):
                yield rows_of(objects, numbers, reading)


def _object(reading: Reading, number: int, line: bytes) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        row = json.loads(line.decode("utf-8"))  # with bytes, json guesses the encoding and accepts lone surrogates
        if b"\\u" in line:
            json.dumps(row, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        problem = f"not UTF-8: {error.reason}"
    except (ValueError, RecursionError) as error:
        problem = f"no JSON: {error}"
    else:
        if isinstance(row, dict):
            return row
        problem = "no JSON object"
    reading.add_malformed(number, problem, line.decode("utf-8", "replace"))
    return None
