"""Reads JSON lines."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.csv_records import LONGEST_LINE
from fullpass.components.ingest.readers.lines import line_parts, parsed_lines
from fullpass.components.ingest.readers.objects import rows_from_dicts
from fullpass.components.ingest.readers.readable import readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import FilePart, Reading, Rows
from fullpass.components.ingest.sources.config import JsonLinesSource
from fullpass.components.ingest.sources.storage import open_binary

_MOST_NAMES = 10_000
"""Different keys in the first rows: with more, the keys are ids and no columns."""


class JsonLinesReader(FileReader[JsonLinesSource]):
    """Rows are numbered by line; blank lines are skipped. Any line may have further keys."""

    def names_in_rows(self, rows: int) -> list[str]:
        """Returns the keys in the first rows, of at most 64 MB; those of inner objects as `a.b`.

        Raises:
            UserError: There are more than 10,000 keys, which are no columns.
        """
        names: dict[str, None] = {}
        for row in _first_objects(self._path, rows):
            names.update(dict.fromkeys(islice(_keys(row, ""), _MOST_NAMES + 1)))
            if len(names) > _MOST_NAMES:
                raise UserError(
                    f"{self._path}: its rows have more than {_MOST_NAMES:,} different keys, such as "
                    f"{', '.join(map(repr, islice(names, 2)))}. If the file is one JSON object of records by their "
                    "ids, write JSON lines: one record per line, with its id as a key of its own."
                )
        return list(names)

    def parts(self) -> list[FilePart]:
        with readable(self._path):
            return line_parts(self._path, self._file.size)

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        for objects, numbers in parsed_lines(self._path, reading, "utf-8", partial(_object, reading)):
            yield rows_from_dicts(objects, numbers, reading)


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


def _keys(row: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in row.items():
        objects = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if isinstance(value, dict) and value:
            yield from _keys(value, f"{above}{key}.")
        elif objects:
            yield from _keys({name: None for item in objects for name in item}, f"{above}{key}.")
        else:
            yield above + key


def _first_objects(path: str, rows: int) -> Iterator[dict[str, Any]]:
    with readable(path), open_binary(path) as stream:
        looked_at = 0
        for line in islice(iter(lambda: stream.readline(LONGEST_LINE), b""), rows):
            looked_at += len(line)
            if looked_at > LONGEST_LINE:
                return
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row
