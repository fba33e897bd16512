"""Reads plain text: a row per line, or a row per file with its folder as label."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from fullpass.components.ingest.readers.folders import folder_parts, folder_rows
from fullpass.components.ingest.readers.lines import is_utf8, line_parts, parsed_lines
from fullpass.components.ingest.readers.reader import (
    WHOLE,
    FilePart,
    Reading,
    Rows,
    check_columns,
    planned,
    readable,
    select_rows,
)
from fullpass.components.ingest.sources.source_config import TextSource
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.components.ingest.sources.storage import Found, open_binary, state_of

_LARGEST_FILE = 64 << 20


class TextReader:
    """See `Reader`."""

    def __init__(self, file: SourceFile, source: TextSource):
        self._file = file
        self._source = source

    def columns(self) -> list[str]:
        """See base class."""
        return ["text"] if self._source.rows == "lines" else ["text", "label", "file"]

    def parts(self) -> list[FilePart]:
        """See base class."""
        if self._source.rows == "files":
            return folder_parts(self._file.path, self._source.endings)
        if not is_utf8(self._source.encoding):
            return planned([WHOLE], state_of(self._file.path))
        return line_parts(self._file.path, self._file.size)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        check_columns(self._file.path, list(reading.columns), self.columns())
        endings = self._source.endings if self._source.rows == "files" else ()
        with readable(self._file.path, reading, partial(state_of, endings=endings)):
            if self._source.rows == "files":
                yield from folder_rows(self._file.path, self._source.endings, reading, self._read_file)
            else:
                yield from self._lines(reading)

    def _read_file(self, found: Found) -> dict[str, str]:
        with open_binary(found.path) as stream:
            data = stream.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise ValueError(f"larger than {_LARGEST_FILE >> 20} MB")
        return {"text": data.decode(self._source.encoding)}

    def _lines(self, reading: Reading) -> Iterator[Rows]:
        def decoded(number: int, line: bytes) -> str | None:
            try:
                return line.decode("utf-8")
            except UnicodeDecodeError:
                reading.add_malformed(number, f"not {self._source.encoding}", line.decode("utf-8", "replace"))
                return None

        for texts, numbers in parsed_lines(self._file.path, reading, self._source.encoding, decoded):
            yield select_rows(pa.table({"text": pa.array(texts, type=pa.string())}), numbers, reading)
