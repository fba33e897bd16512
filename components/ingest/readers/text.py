"""Plain text: a row per line, or a row per file with its folder as label."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from components.ingest.files import SourceFile
from components.ingest.readers.folders import folder_parts, folder_rows
from components.ingest.readers.lines import is_utf8, line_parts, numbered_lines
from components.ingest.reading import BATCH_ROWS, WHOLE, Part, Reading, Rows, check_columns, readable
from components.ingest.sources import TextSource
from components.ingest.storage import Found, open_binary


class TextReader:
    """See `Reader`."""

    def __init__(self, file: SourceFile, source: TextSource):
        self._file = file
        self._source = source

    def columns(self) -> list[str]:
        """See base class."""
        return ["text"] if self._source.rows == "lines" else ["text", "label", "file"]

    def parts(self) -> list[Part]:
        """See base class."""
        if self._source.rows == "files":
            return folder_parts(self._file.path, self._source.endings)
        if not is_utf8(self._source.encoding):
            return [WHOLE]
        return line_parts(
            self._file.path, self._file.size, count=lambda data: data.count(b"\n"), splittable=lambda _: True
        )

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        check_columns(self._file.path, list(reading.columns), self.columns())
        with readable(self._file.path):
            if self._source.rows == "files":
                yield from folder_rows(self._file.path, self._source.endings, reading, self._read_file)
            else:
                yield from self._lines(reading)

    def _read_file(self, found: Found) -> dict[str, str]:
        with open_binary(found.path) as stream:
            return {"text": stream.read().decode(self._source.encoding)}

    def _lines(self, reading: Reading) -> Iterator[Rows]:
        texts: list[str] = []
        numbers: list[int] = []
        for number, line in numbered_lines(self._file.path, reading, self._source.encoding):
            try:
                texts.append(line.decode("utf-8"))
                numbers.append(number)
            except UnicodeDecodeError:
                reading.add_malformed(number, f"not {self._source.encoding}", line.decode("utf-8", "replace"))
            if len(texts) == BATCH_ROWS:
                yield _rows(texts, numbers, reading)
                texts, numbers = [], []
        if texts:
            yield _rows(texts, numbers, reading)


def _rows(texts: list[str], numbers: list[int], reading: Reading) -> Rows:
    table = pa.table({"text": pa.array(texts, type=pa.string())})
    return Rows(table.select(list(reading.columns)), np.array(numbers, dtype=np.int64), table)
