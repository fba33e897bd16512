"""Reads the sample of one file: parts spread over it, within a budget of bytes and rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.csv_records import one_record_per_line
from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.rows import WHOLE, BadRow, FilePart, Reading
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import FORMATS, Source
from fullpass.components.ingest.sources.storage import is_compressed, open_binary, open_raw
from fullpass.pipeline.authoring.profile.images import Size, image_sizes, image_texts
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import as_declared, to_text
from fullpass.preprocessing.values.list_values import is_list

_LOOK = 4 << 20
"""Bytes by which it is judged whether every line end ends a row."""
_LONGEST_LINE = 64 << 20
"""Bytes of a line after which a part ends."""
_ONE_BYTE_LINE_ENDS = ("utf-8", "cp1252", "latin-1", "ascii", "cp1251")


@dataclass
class _ColumnCells:
    """What is kept of one column of a file.

    Attributes:
        arrays: Text or lists, one array per run of batches of equal types.
        numbers: Text of the numbers that the run reads, one array beside each of `arrays`, of a declared number.
    """

    arrays: list[pa.Array] = field(default_factory=list)
    numbers: list[pa.Array] = field(default_factory=list)
    images: list[Size] = field(default_factory=list)
    refused: str = ""


@dataclass(frozen=True)
class FileSample:
    """The rows read from one file; `total` is its number of rows, counted or estimated, None if unknown."""

    file: SourceFile
    cells: Mapping[str, _ColumnCells]
    rows: int
    malformed: int
    bad: tuple[BadRow, ...]
    whole: bool
    evenly_spread: bool
    total: int | None
    is_counted: bool


def evenly_spaced(items: Sequence, most: int) -> list:
    """Returns at most `most` items: the first, the last and evenly spaced ones between."""
    indices = np.unique(np.linspace(0, len(items) - 1, num=min(most, len(items))).round().astype(int))
    return [items[index] for index in indices]


def as_text(array: pa.Array, strip: bool) -> pa.Array:
    """Returns a column as the text that ingest reads; unchanged if ingest cannot read it or most cells are no text."""
    if pa.types.is_nested(array.type) or pa.types.is_null(array.type):
        return array
    try:
        text, undecodable = to_text(array, strip=strip, missing=())
    except pa.ArrowException:
        return array
    return array if undecodable.sum() > len(text) - text.null_count else text


def read_file_sample(
    file: SourceFile,
    source: Source,
    columns: Sequence[str],
    images: Collection[str] | None,
    declared: Mapping[str, RawColumn],
    most_parts: int,
    budget: int,
    rows: int,
) -> FileSample:
    """Reads a file, or parts of it, until its bytes in memory or its rows exceed the budget."""
    cut, strip = _cut(file, source, budget, most_parts), source.raw_text.strip
    parts = cut.parts if cut else [WHOLE]
    cells = {name: _ColumnCells() for name in columns}
    malformed = total = passed = 0
    bad: list[BadRow] = []
    whole = True
    form, small = FORMATS[source.format], cut is None and file.size <= budget
    subsample = form.native or (small and form.cut_at_lines and not is_compressed(file.path))
    for part in parts:
        reading = Reading(file, {name: RawColumn(name, "string") for name in columns}, part)
        kept = _KeptBatches(2 * budget // len(parts), -(-rows // len(parts)), subsample=subsample)
        for batch in read_rows(reading, source):
            kept.add(batch.table)
            if kept.is_full:
                break
        # An array takes the time of thousands of its values, so batches of equal types become one.
        for _, alike in groupby(kept.tables, key=lambda table: table.schema):
            table = pa.concat_tables(alike)
            for name, column in zip(table.column_names, table.columns, strict=True):
                array = column.combine_chunks()
                if images is None and not cells[name].images:
                    cells[name].images = image_sizes(array)
                if cells[name].images or name in (images or ()):
                    cells[name].arrays.append(image_texts(array))
                else:
                    _add(cells[name], array, declared.get(name), strip)
        whole = whole and not kept.is_full
        passed, total = passed + kept.passed, total + kept.rows
        malformed, bad = malformed + reading.malformed, bad + reading.bad
    rows_of_file = cut.rows or (round(passed / cut.share) if whole else None) if cut else passed if whole else None
    is_all = whole and not cut and total == passed
    counted = whole and not cut
    return FileSample(file, cells, total, malformed, tuple(bad), is_all, whole or bool(cut), rows_of_file, counted)


def _add(cells: _ColumnCells, array: pa.Array, raw: RawColumn | None, strip: bool) -> None:
    """Adds an array as text, and for a declared number the text of the numbers that the run reads."""
    text = as_text(array, strip)
    cells.arrays.append(text)
    if raw is None or raw.type == "vector":
        return
    numbers = text
    if not is_list(array.type) and not pa.types.is_null(array.type):
        try:
            as_read = as_declared(array, raw)
            numbers = text if as_read.type == array.type else as_text(as_read, strip)
        except UserError as error:
            cells.refused = cells.refused or str(error)
    if raw.type == "number":
        cells.numbers.append(numbers)


class _KeptBatches:
    """The batches kept from a part, limited in bytes and rows.

    With `subsample`, the whole part is read; whenever the kept batches exceed a limit, every second of them is dropped.
    Without it, the part is read only until a limit is reached.
    """

    def __init__(self, most_bytes: int, most_rows: int, *, subsample: bool):
        self.tables: list[pa.Table] = []
        self.passed = self._bytes = 0
        self._most_bytes, self._most_rows, self._subsample = most_bytes, most_rows, subsample
        self._stride, self._batches = 1, 0

    @property
    def rows(self) -> int:
        """Number of kept rows."""
        return sum(table.num_rows for table in self.tables)

    @property
    def is_full(self) -> bool:
        """Whether reading can stop."""
        return not self._subsample and self._is_over(self._most_rows - 1)

    def add(self, table: pa.Table) -> None:
        """Adds a batch; keeps it if the stride selects it."""
        self._batches, self.passed = self._batches + 1, self.passed + table.num_rows
        if (self._batches - 1) % self._stride == 0:
            self.tables.append(table)
            self._bytes += table.nbytes
        while self._subsample and len(self.tables) > 1 and self._is_over(self._most_rows):
            self.tables, self._stride = self.tables[::2], 2 * self._stride
            self._bytes = sum(kept.nbytes for kept in self.tables)

    def _is_over(self, most_rows: int) -> bool:
        return self.rows > most_rows or self._bytes > self._most_bytes


@dataclass(frozen=True)
class _Cut:
    """Parts spread over a file, and either their share of the file or the number of rows of the whole file."""

    parts: list[FilePart]
    share: float = 1.0
    rows: int | None = None


def _cut(file: SourceFile, source: Source, budget: int, most_parts: int) -> _Cut | None:
    """Returns parts of a file that exceeds the budget; None if it does not, or if it cannot be cut."""
    if file.size <= budget:
        return None
    if FORMATS[source.format].native:
        parts = parts_of(file, source)
        chosen = evenly_spaced(parts, most_parts)
        return _Cut(chosen, share=len(chosen) / len(parts))
    if FORMATS[source.format].cut_at_lines and _ends_rows_with_lines(file.path, source):
        return _cut_lines(file, most_parts, budget // most_parts)
    return None


def _ends_rows_with_lines(path: str, source: Source) -> bool:
    """Returns whether every line end of the file ends a row, judged by its first megabytes."""
    if is_compressed(path):
        return False
    if not isinstance(source, CsvSource) or not source.quoting:
        return True
    if source.encoding.lower() not in _ONE_BYTE_LINE_ENDS:
        return False
    with open_binary(path) as file:
        return one_record_per_line(file.read(_LOOK).rpartition(b"\n")[0] + b"\n", source.separator)


def _cut_lines(file: SourceFile, count: int, size: int) -> _Cut:
    """Returns evenly spaced ranges of complete lines of a file, of about `size` bytes; the first is at its start."""
    parts: list[FilePart] = []
    lines = looked_at = 0
    with open_raw(file.path) as stream:
        for start in np.linspace(0, file.size - size, num=count).astype(int).tolist():
            stream.seek(start)
            begin = start + len(stream.readline(_LONGEST_LINE)) if start else 0
            text = stream.read(max(start + size - begin, 0)) + stream.readline(_LONGEST_LINE)
            if text and (not parts or begin >= parts[-1].end):
                parts.append(FilePart(begin, begin + len(text)))
                lines, looked_at = lines + text.count(b"\n"), looked_at + len(text)
    return _Cut(parts, rows=round(file.size * lines / looked_at))
