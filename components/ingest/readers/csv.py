"""Reads CSV with Arrow's parser, block by block: rows keep their line numbers, and a bad row affects no other row."""

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.csv_records import (
    KEPT_BYTES,
    Block,
    CsvRecords,
    blocks,
    count_lines,
    has_empty_line,
    has_line,
    one_record_per_line,
    records_of_block,
)
from fullpass.components.ingest.readers.lines import (
    TOO_LONG,
    chunks,
    is_utf8,
    line_parts,
    without_first_lines,
)
from fullpass.components.ingest.readers.readable import EmptyFileError, readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import WHOLE, FilePart, Reading, Rows, planned
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.storage import state_of
from fullpass.preprocessing.values.arrow_text import as_array, as_readable, to_text

_HEADER_BYTES = 1 << 18
"""Bytes that are read at a time until the header is whole: less than a chunk, and few steps to the longest line."""


class CsvReader(FileReader[CsvSource]):
    """Rows are numbered by the line at which they start."""

    def columns(self) -> list[str]:
        return list(self._columns)

    @cached_property
    def _columns(self) -> Sequence[str]:
        names = self._source.columns or self._header_names()
        return [name.strip() for name in names] if self._source.strip else names

    def parts(self) -> list[FilePart]:
        """A file is cut only if every opening quote is closed in its line."""
        if not is_utf8(self._source.encoding):
            return planned([WHOLE], state_of(self._path))

        def splittable(data: bytes) -> bool:
            if not self._source.quoting:
                return data.count(b"\r") == data.count(b"\r\n")
            return one_record_per_line(data, self._source.separator)

        with readable(self._path):
            return line_parts(self._path, self._file.size, count=count_lines, splittable=splittable)

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        parser = _Parser(reading, self._source, self.columns())
        header = 0 if self._source.columns or reading.part.begin else self._header[-1].first_line
        for block in self._blocks(reading.part, reading):
            yield from parser.parse(self._below(header, block))

    def _header_names(self) -> list[str]:
        try:
            return joined_names([_names(row, self._source) for row in self._header])
        except pa.ArrowInvalid as error:
            raise UserError(f"{self._path}: the first line is no header line with column names: {error}.") from error
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self._path}: the header line is not {self._source.encoding}: {error.reason}. "
                "Write data.source.encoding, such as latin-1, or name the columns by data.source.columns; for a file "
                "given to a command such as predict, by --encoding or --columns."
            ) from error

    def _blocks(self, part: FilePart, reading: Reading | None = None, size: int | None = None) -> Iterator[Block]:
        source = self._source
        skip = 0 if part.begin else source.skip_rows
        content = chunks(self._path, part, source.encoding, reading, size=size)
        return blocks(
            without_first_lines(content, skip) if skip else content,
            source.separator,
            quoting=source.quoting,
            first_line=part.first_row + skip,
            max_cell=source.max_cell_kb << 10,
        )

    def _below(self, line: int, block: Block) -> Block:
        """Returns the part of a block below the record that starts at `line`."""
        if block.too_long or block.first_line > line:
            return block
        if block.one_per_line:
            lines_above = line - block.first_line + 1
            data = block.data.split(b"\n", lines_above)[lines_above:]
            return Block(b"".join(data), line + 1, True)
        block_records = _records(block, self._source)
        lines, starts = block_records.lines, block_records.starts
        below = int(np.searchsorted(lines, line, side="right"))
        if below == len(lines):
            return Block(b"", line, False)
        return Block(block.data[starts[below] :], int(lines[below]), False)

    @cached_property
    def _header(self) -> list[Block]:
        found: list[Block] = []
        with readable(self._path):
            for block in self._blocks(WHOLE, size=_HEADER_BYTES):
                if block.too_long:
                    raise ValueError(TOO_LONG)
                rows = _records(block, self._source).take(slice(0, self._source.header_rows - len(found)))
                for start, end, line in zip(rows.starts, rows.ends, rows.lines, strict=True):
                    found.append(Block(block.data[start:end], int(line), False))
                if len(found) == self._source.header_rows:
                    return found
        raise EmptyFileError(f"{self._path}: the file is empty; a header line with the column names was expected.")


class _Parser:
    """Parses the blocks of one part. Arrow parses numbers directly until a cell is not a number."""

    def __init__(self, reading: Reading, source: CsvSource, names: list[str]):
        self._reading = reading
        self._source = source
        self._skipped = _skipped(source)
        self._width = len(names)
        self._names = names
        position = {name: str(index) for index, name in enumerate(names)}  # a needed column is there once
        self._positions = {column: position[column] for column in reading.columns}
        self._numbers = {
            column
            for column, raw in reading.columns.items()
            if raw.type == "number" and source.strip and column not in source.missing_in and not reading.all_columns
        }
        # Whole rows keep every cell as it is written; parsing it as a number would change it.
        self._read_positions = (
            [str(i) for i in range(self._width)] if reading.all_columns else list(self._positions.values())
        )

    def parse(self, block: Block) -> Iterator[Rows]:
        """Yields the rows of a block."""
        if block.too_long:
            self._malformed(block.first_line, TOO_LONG, block.data)
        if block.too_long or not block.data:
            return
        has_empty = self._source.skip_empty and has_empty_line(block.data, self._source.separator)
        if block.one_per_line and not has_empty and not has_line(block.data, self._skipped):
            table, malformed = self._read(block.data) or _NOTHING
            lines = count_lines(block.data) + (not block.data.endswith(b"\n"))
            if table.num_rows + len(malformed) == lines:
                numbers = np.arange(block.first_line, block.first_line + lines, dtype=np.int64)
                yield self._rows(table, numbers, malformed)
                return
        block_records = _records(block, self._source)
        for i in np.flatnonzero(block_records.unterminated).tolist():
            self._malformed(
                int(block_records.lines[i]),
                "a quote that is not closed",
                block.data[block_records.starts[i] : block_records.ends[i]],
            )
        yield from self._parse_records(block.data, block_records.take(~block_records.unterminated))

    def _parse_records(self, data: bytes, block_records: CsvRecords) -> Iterator[Rows]:
        """Parses records. If Arrow finds more or fewer rows than records, each half is parsed separately."""
        if not len(block_records):
            return
        table, malformed = self._read(_joined(data, block_records)) or _NOTHING
        if table.num_rows + len(malformed) == len(block_records):
            yield self._rows(table, block_records.lines, malformed)
        elif len(block_records) == 1:
            self._malformed(
                int(block_records.lines[0]),
                self._why_unreadable(_joined(data, block_records)),
                _joined(data, block_records),
            )
        else:
            middle = len(block_records) // 2
            yield from self._parse_records(data, block_records.take(slice(0, middle)))
            yield from self._parse_records(data, block_records.take(slice(middle, None)))

    def _why_unreadable(self, record: bytes) -> str:
        """Returns the reason why Arrow reads a record as no row, even if the record is not valid UTF-8."""
        _, malformed = self._read(record.decode("latin-1").encode()) or _NOTHING
        return _cells_of(malformed[0]) if malformed else "not one row"

    def _malformed(self, line: int, reason: str, text: bytes) -> None:
        self._reading.add_malformed(line, reason, text[:KEPT_BYTES].decode("utf-8", "replace").rstrip("\r\n"))

    def _rows(self, table: pa.Table, lines: np.ndarray, malformed: list[Any]) -> Rows:
        """Returns parsed rows with their line numbers, and records the rows with too many or too few cells as bad."""
        positions = np.array([row.number - 1 for row in malformed], dtype=np.int64)
        for row, line in zip(malformed, lines[positions].tolist(), strict=True):
            self._reading.add_malformed(line, _cells_of(row), row.text)
        return self._readable_rows(Rows(table, np.delete(lines, positions)))

    def _readable_rows(self, rows: Rows) -> Rows:
        """Returns the rows whose cells are text and not longer than `max_cell_kb`."""
        good = np.ones(len(rows.numbers), dtype=bool)
        limit = self._source.max_cell_kb
        needed = rows.table.select(list(self._positions.values()))
        columns = needed.columns
        for index, (name, column) in enumerate(zip(self._reading.columns, columns, strict=True)):
            is_bytes = pa.types.is_binary(column.type)
            # A column that is not longer than a cell may be has no cell to measure: that takes long for many columns.
            if is_bytes or (pa.types.is_string(column.type) and column.nbytes > limit << 10):
                content = as_array(column)
                long = pc.binary_length(content).to_numpy(zero_copy_only=False) > limit << 10
                columns[index], undecodable = to_text(content, strip=False, missing=())
                for bad, why in (
                    (long, f"a cell longer than {limit:,} kB"),
                    (undecodable, f"not {self._source.encoding}"),
                ):
                    for row in np.flatnonzero(bad & good).tolist():
                        good[row] = False
                        text = content.cast(pa.binary())[row].as_py()[:KEPT_BYTES].decode("utf-8", "replace")
                        self._reading.add_malformed(int(rows.numbers[row]), why, text, column=name)
        table = pa.table(columns, names=list(self._reading.columns))
        all_columns = rows.table.rename_columns(self._names) if self._reading.all_columns else None
        if self._reading.all_columns == "to_show":
            all_columns = pa.table([as_readable(cells) for cells in rows.table.columns], names=self._names)
        found = Rows(table, rows.numbers, all_columns)
        return found if good.all() else found.filter(good)

    def _read(self, data: bytes) -> tuple[pa.Table, list[Any]] | None:
        """Returns the rows with the right number of cells, and the other rows as Arrow describes them.

        Returns None if Arrow fails: it cannot describe a row that has too many or too few cells and is not UTF-8.
        """
        while True:
            try:
                return self._read_as(data, self._numbers)
            except pa.ArrowInvalid:
                if not self._numbers:
                    return None
                self._numbers = set()

    def _read_as(self, data: bytes, numbers: Set[str]) -> tuple[pa.Table, list[Any]]:
        malformed: list[Any] = []

        def keep(row: Any) -> str:
            malformed.append(row)
            return "skip"

        # Cells of bytes that are UTF-8 are text; a separator, quote or line end never cuts a character.
        cells = pa.string() if _decodes_as_utf8(data) else pa.binary()
        table = pa.csv.read_csv(
            pa.py_buffer(data),
            read_options=pa.csv.ReadOptions(
                use_threads=False,  # Arrow reports the numbers of malformed rows only without threads
                block_size=max(len(data), 1),
                column_names=[str(i) for i in range(self._width)],
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=self._source.separator,
                quote_char='"' if self._source.quoting else False,
                newlines_in_values=self._source.quoting,
                invalid_row_handler=keep,
            ),
            convert_options=pa.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(self._read_positions, cells)
                | {self._positions[name]: pa.float64() for name in numbers},
                include_columns=self._read_positions,
                null_values=list(self._source.missing),
                strings_can_be_null=False,
                decimal_point=self._source.decimal,
            ),
        )
        return table, malformed


_NOTHING: tuple[pa.Table, list[Any]] = pa.table({}), []


def _decodes_as_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _cells_of(row: Any) -> str:
    return f"{row.actual_columns} cells, expected {row.expected_columns}"


def _names(header: Block, source: CsvSource) -> list[str]:
    parse = pa.csv.ParseOptions(delimiter=source.separator, quote_char='"' if source.quoting else False)
    line = header.data if header.data.endswith((b"\n", b"\r")) else header.data + b"\n"
    read = pa.csv.ReadOptions(use_threads=False, block_size=len(line))
    return pa.csv.read_csv(pa.py_buffer(line), read_options=read, parse_options=parse).column_names


def joined_names(rows: list[list[str]]) -> list[str]:
    """Returns one name per column from the cells of the header lines; see `CsvSource.header_rows`."""
    names = rows[-1]
    for row in reversed(rows[:-1]):
        spanned, last = [], ""
        for cell in row:
            last = cell.strip() or last
            spanned.append(last)
        spanned += [""] * (len(names) - len(spanned))
        below = [*names, *[""] * (len(spanned) - len(names))]
        names = [
            f"{name} {cell.strip()}".strip() if spanned.count(name) > 1 or not name else name
            for name, cell in zip(spanned, below, strict=True)
        ]
    return names


def _records(block: Block, source: CsvSource) -> CsvRecords:
    skipped, empty = _skipped(source), source.skip_empty
    return records_of_block(block, source.separator, quoting=source.quoting, skipped=skipped, skip_empty=empty)


def _skipped(source: CsvSource) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in source.skip_lines)


def _joined(data: bytes, block_records: CsvRecords) -> bytes:
    return b"".join(
        [data[s:e] for s, e in zip(block_records.starts.tolist(), block_records.ends.tolist(), strict=True)]
    )
