"""Reads plain text: a row per line, or a row per file with its folder as label."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from fullpass.components.ingest.readers.csv_records import LONGEST_LINE
from fullpass.components.ingest.readers.folders import folder_parts, folder_rows
from fullpass.components.ingest.readers.lines import is_utf8, line_parts, parsed_lines
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import WHOLE, FilePart, Reading, Rows, planned, select_rows
from fullpass.components.ingest.sources.config import TextSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, find_folders
from fullpass.components.ingest.sources.storage import Found, open_binary, state_of


class TextReader(FileReader[TextSource]):
    @classmethod
    def inputs(cls, source: TextSource, resolve: Resolve) -> Sequence[SourceFile]:
        """Returns the folders or the files."""
        if source.reads_folders:
            return find_folders(source.path, resolve, source.endings)
        return super().inputs(source, resolve)

    def columns(self) -> list[str]:
        return ["text"] if not self._source.reads_folders else ["text", "label", "file"]

    def parts(self) -> list[FilePart]:
        if self._source.reads_folders:
            return folder_parts(self._path, self._source.endings)
        if not is_utf8(self._source.encoding):
            return planned([WHOLE], self.state())
        return line_parts(self._path, self._file.size)

    def state(self) -> str:
        """Returns text that changes when the file or the files of the folder change."""
        return state_of(self._path, self._source.endings if self._source.reads_folders else ())

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        if self._source.reads_folders:
            return folder_rows(self._path, self._source.endings, reading, self._read_file)
        return self._lines(reading)

    def _read_file(self, found: Found) -> dict[str, str]:
        with open_binary(found.path) as stream:
            data = stream.read(LONGEST_LINE + 1)
        if len(data) > LONGEST_LINE:
            raise ValueError(f"larger than {LONGEST_LINE >> 20} MB")
        return {"text": data.decode(self._source.encoding)}

    def _lines(self, reading: Reading) -> Iterator[Rows]:
        def decoded(number: int, line: bytes) -> str | None:
            try:
                return line.decode("utf-8")
            except UnicodeDecodeError:
                reading.add_malformed(number, f"not {self._source.encoding}", line.decode("utf-8", "replace"))
                return None

        for texts, numbers in parsed_lines(self._path, reading, self._source.encoding, decoded):
            yield select_rows(pa.table({"text": pa.array(texts, type=pa.string())}), numbers, reading)
