"""The additional pass over the events of histories, before the rows are written: it sorts them once, out of core.

The events of a span are in its own files and in those of the spans before it, as far back as `within` reaches. The
label of a forecast is in those of later spans. Only the columns of the histories and the label are read.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from absl import logging

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import is_address
from fullpass.base.progress import report
from fullpass.components.ingest.history.event_index import EventIndex, element_type, keys_and_times
from fullpass.components.ingest.history.shifted_index import ShiftedIndex, repeated_time
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.joins.build_index import Buckets, bucket_bits
from fullpass.components.ingest.joins.join_index import (
    FIRST,
    SECOND,
    SPAN,
    TIME,
    IndexFiles,
    publish_index,
)
from fullpass.components.ingest.readers.read_source import parts_of
from fullpass.components.ingest.readers.rows import BadRowCount, Reading, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.span_column import span_numbers
from fullpass.preprocessing.columns.raw_columns import ROW_BITS, RawColumn, derived_dependencies
from fullpass.preprocessing.features.forecast import ShiftedLabel
from fullpass.preprocessing.features.history import History, history_of, list_group, lists_of
from fullpass.preprocessing.values.arrow_text import to_text
from fullpass.preprocessing.values.row_keys import KEY

_OWN = (FIRST, SECOND, TIME, SPAN)
_ROW = "row"
"""Of a forecast, the number of the file and of the row in it."""


def with_histories(
    ingestions: Sequence[Ingestion], request: Request, folder: str, *, most_bad: float = 1.0
) -> list[Ingestion]:
    """Reads the events once, and returns the ingestions with the sorted events of each history, and of a forecast.

    Args:
        ingestions: With their joined tables.
        folder: Folder for the events, which must exist while rows are read.
        most_bad: Largest share of rows that cannot be events; Ingest counts them when it writes the rows.

    Raises:
        UserError: A file cannot be read, a column does not hold what its list declares, too many rows cannot be events,
            or an entity has two rows of one time and the label of a forecast.
    """
    config = request.config
    if not ingestions or not (config.history or config.shifted):
        return list(ingestions)
    source, columns = _EventSource(ingestions[0], request), ingestions[0].columns
    sorters = {
        name: _Sorter(list_group(name), history, source, _bases(columns, name, history), f"{folder}/{name}")
        for name, history in config.history.items()
    }
    label = None
    if config.shifted is not None:
        bases = {column: config.shifted.name for column in columns if column.name == config.shifted.label}
        label = _Sorter("label.forecast", config.shifted, source, bases, f"{folder}/of-label", distinct=True)
    for reading, rows, spans in source.batches():
        _, arrays, good = source.ingestion.convert(reading, rows)
        for sorter in (*sorters.values(), *([label] if label else [])):
            sorter.add(reading, rows, spans, arrays, good)
    source.check(most_bad)
    before = request.spans_before
    histories = tuple(
        sorter.event_index(name, config.history[name], before.get(name, 0)) for name, sorter in sorters.items()
    )
    forecast = label.shifted_index(config.shifted, request) if label and config.shifted else None
    return [replace(one, histories=histories, forecast=forecast) for one in ingestions]


def _bases(columns: Sequence[RawColumn], name: str, history: History) -> dict[RawColumn, str | None]:
    """Returns list of a history -> the column that it is made of; None for that of the ages."""
    bases = lists_of({name: history})
    return {column: bases.get(column.name) for column in columns if history_of(column.name, {name: history})}


class _EventSource:
    """The rows of all spans that the requested ones see, with the columns of the histories."""

    def __init__(self, ingestion: Ingestion, request: Request):
        self.ingestion = replace(ingestion, columns=ingestion.columns_of_events(), span=None)
        self.config = ingestion.config
        self._counted = BadRowCount()
        self._spans = {span.number: span.files for span in (*request.past, *request.spans)}
        self._spanned = request.spanned

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files, each once, in the order of their spans."""
        every = {file.path: file for number in sorted(self._spans) for file in self._spans[number]}
        return tuple(every.values())

    def batches(self) -> Iterator[tuple[Reading, Rows, np.ndarray]]:
        """Yields rows, and the span of each, int64 [rows]; 0 if the source has no spans."""
        by_column = self.config.span if self._spanned else None
        of_file = {file.path: number for number in sorted(self._spans) for file in self._spans[number]}
        for file in self.files:
            for part in parts_of(file, self.config.source):
                reading = self.ingestion.reading(file, part)
                # Rows of a column's spans are told apart below, so that a file with many spans is read once.
                own = None if by_column is not None or not self._spanned else of_file[file.path]
                for rows in replace(self.ingestion, span=own).read(reading):
                    if by_column is not None:
                        spans = span_numbers(rows.table, by_column, self.ingestion.text.decimal)
                        mine = np.isin(spans, list(self._spans))
                        rows, spans = rows.filter(mine), spans[mine]
                    else:
                        spans = np.full(len(rows.numbers), of_file[file.path] if self._spanned else 0)
                    if len(rows.numbers):
                        yield reading, rows, spans
                    self._counted.rows += len(rows.numbers)
                    report(self._counted.rows, None, "rows", f"events of {file.path.rsplit('/', 1)[-1]}")
                    self._counted.add(reading.take_bad())
                self._counted.add(reading.take_bad())
                self._counted.rows += reading.malformed

    def check(self, most_bad: float) -> None:
        """Raises UserError if a larger share of the rows cannot be events."""
        fix = "Fix these rows, or remove them from the file."
        self._counted.check(most_bad, "the events", f"at most {most_bad:.2%} may be so", fix)


class _Sorter:
    """The events of one history, or the rows of a forecast, dealt to files and then sorted."""

    def __init__(
        self,
        path: str,
        of: History | ShiftedLabel,
        source: _EventSource,
        bases: Mapping[RawColumn, str | None],
        folder: str,
        *,
        distinct: bool = False,
    ):
        """Begins without events.

        Args:
            path: Path in the YAML, for messages.
            of: Names the key and the date.
            bases: Column of the examples -> the column of the events that it is made of.
            distinct: Whether an entity has one row per time.
        """
        self._path, self._of, self._source, self._folder, self._distinct = path, of, source, folder, distinct
        self._work = Path(tempfile.mkdtemp(prefix="fullpass-history-") if is_address(folder) else folder)
        self._work.mkdir(parents=True, exist_ok=True)
        self._buckets = Buckets(self._work / "unsorted", bucket_bits(source.files))
        self._columns = tuple(bases)
        self._bases = {column: base for column, base in bases.items() if base is not None}
        self._numbers = {file.path: number for number, file in enumerate(source.files)}

    def add(
        self, reading: Reading, rows: Rows, spans: np.ndarray, arrays: Mapping[str, pa.Array], good: np.ndarray
    ) -> None:
        """Adds the rows that are events: those with an entity, a date, and readable columns.

        Args:
            spans: int64 [rows].
            arrays: The raw and joined columns of events.
            good: bool [rows], whether these are readable.
        """
        keys, times, there = keys_and_times(rows, good.copy(), reading, self._of, self._source.ingestion.text)
        values = {}
        for column, base in self._bases.items():
            values[column.name] = self._values(column, base, arrays, reading, rows)
        usable = good & there
        if not usable.any():
            return
        own = {FIRST: keys.first, SECOND: keys.second, TIME: times, SPAN: spans.astype(np.int64)}
        if self._distinct:
            own |= {KEY: keys.texts, _ROW: (self._numbers[reading.path] << ROW_BITS) + rows.numbers}
        self._buckets.add(pa.table({**own, **values}).filter(pa.array(usable)))

    def _values(
        self, column: RawColumn, base: str, arrays: Mapping[str, pa.Array], reading: Reading, rows: Rows
    ) -> pa.Array:
        """Returns the elements of a column: float32 or binary [rows], NaN or "" for missing."""
        ingestion, config = self._source.ingestion, self._source.config
        wanted = element_type(column)
        if base in config.derive:
            from fullpass.components.ingest.splitting.derived_batches import derived_column  # loads TensorFlow

            with prefix_errors(f"data.derive.{base}"):
                cells = derived_column(base, arrays, ingestion.columns, derived_dependencies(base, config.derive))
        elif base in arrays and arrays[base].type == wanted:
            cells = arrays[base]
        else:
            cells, fits = ingestion.convert_column(base, column, reading, rows)
            if not fits.all():
                bad = reading.bad[-int((~fits).sum())]
                raise UserError(
                    f"{self._path}: {column.name} is read as numbers, but {base} as text: {bad.text[:80]!r} in "
                    f"{bad.file}, row {bad.row}, is {bad.reason}. Derive a number from {base}, and keep that instead."
                )
        if column.token:
            cells = to_text(cells, strip=False, missing=(), tokens=True)[0].cast(wanted)
        if cells.type != wanted:
            raise UserError(
                f"{self._path}: {base} gives {'text' if pa.types.is_binary(cells.type) else 'numbers'}, "
                f"but {column.name} is read as a {column.type}. Declare it: types: {{{column.name}: "
                f"{'string' if pa.types.is_binary(cells.type) else 'number'}}}."
            )
        return cells.fill_null(float("nan") if column.type == "number" else b"")

    def event_index(self, name: str, history: History, before: int) -> EventIndex:
        """Sorts the events, and returns their index. before: number of the spans before its own that a row sees."""
        events, ordered = self._sorted()
        return EventIndex(name, history, self._columns, self._folder, self._files, events, ordered, before)

    def shifted_index(self, shifted: ShiftedLabel, request: Request) -> ShiftedIndex:
        """Sorts the rows, and returns their index.

        Raises:
            UserError: An entity has two rows of one time.
        """
        rows, _ = self._sorted()
        spans = dict(zip(shifted.columns, request.reaches, strict=True))
        return ShiftedIndex(shifted, element_type(self._columns[0]), spans, self._folder, self._files, rows)

    @property
    def _files(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def _sorted(self) -> tuple[int, bool]:
        """Writes the files of the index; returns the number of events, and whether spans are in order of time."""
        events, ordered = self._write_sorted()
        publish_index(self._work, self._folder)
        logging.info("%s: %s events in %s files", self._path, f"{events:,}", len(self._files))
        return events, ordered

    def _write_sorted(self) -> tuple[int, bool]:
        total, ordered = 0, True
        with IndexFiles(self._work, _OWN, (*_OWN, KEY, _ROW)) as files:
            for bucket in self._buckets.sorted((FIRST, SECOND, TIME)):
                first, second, time, span = (bucket.numbers(name) for name in _OWN)
                same = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
                ordered &= not (same & (span[1:] < span[:-1])).any()
                repeated = same & (time[1:] == time[:-1])
                if self._distinct and repeated.any():
                    self._refuse(bucket.rows(int(repeated.argmax()), 2))
                for piece in bucket.pieces():
                    files.write(piece)
                total += len(first)
        return total, ordered

    def _refuse(self, rows: Sequence[Mapping[str, Any]]) -> None:
        where = [f"{self._files[row[_ROW] >> ROW_BITS]}, row {row[_ROW] & (1 << ROW_BITS) - 1}" for row in rows]
        told = repeated_time(rows[0][KEY], rows[0][TIME], f": {where[0]}, and {where[1]}")
        raise UserError(f"{self._path}: {told}")
