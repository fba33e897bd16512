"""The additional pass over the events of histories, before the rows are written: it sorts them once, out of core.

The events of a span are in its own files and in those of the spans before it, as far back as `within` reaches. Only
the columns of the histories are read.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from absl import logging

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import is_address
from fullpass.base.progress import report
from fullpass.components.ingest.history.event_index import SPAN, EventIndex
from fullpass.components.ingest.history.recomputed import EventSample
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.joins.build_index import Buckets, bucket_bits
from fullpass.components.ingest.joins.join_index import FIRST, SECOND, TIME, VALUES, keys_of, publish_index, times_of
from fullpass.components.ingest.readers.read_source import parts_of
from fullpass.components.ingest.readers.reader import Reading, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.span_column import span_numbers
from fullpass.preprocessing.columns.raw_columns import derived_dependencies
from fullpass.preprocessing.features.history import History, history_of, lists_of

_OWN = (FIRST, SECOND, TIME, SPAN)


def with_histories(ingestions: Sequence[Ingestion], request: Request, folder: str) -> list[Ingestion]:
    """Reads the events once, and returns the ingestions with the sorted events of each history.

    Args:
        ingestions: With their joined tables.
        folder: Folder for the events, which must exist while rows are read.

    Raises:
        UserError: A file cannot be read, or a column does not hold what its list declares.
    """
    if not ingestions or not request.config.history:
        return list(ingestions)
    source = _EventSource(ingestions[0], request)
    sorters = [_Sorter(name, history, source, f"{folder}/{name}") for name, history in request.config.history.items()]
    for reading, rows, spans in source.batches():
        arrays, good = source.ingestion.convert(reading, rows)
        for sorter in sorters:
            sorter.add(reading, rows, spans, arrays, good)
    histories = tuple(sorter.index() for sorter in sorters)
    return [replace(ingestion, histories=histories, spans_before=request.spans_before) for ingestion in ingestions]


class _EventSource:
    """The rows of all spans that the requested ones see, with the columns of the histories."""

    def __init__(self, ingestion: Ingestion, request: Request):
        config = ingestion.config
        self.lists = {c.name: c for c in ingestion.columns if history_of(c.name, config.history)}
        self.ingestion = replace(ingestion, columns=ingestion.columns_of_events(), span=None)
        self.config = config
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
        count = 0
        for file in self.files:
            for part in parts_of(file, self.config.source):
                reading = self.ingestion.reading(file, part)
                # Rows of a column's spans are told apart below, so that a file with many spans is read once.
                own = None if by_column is not None or not self._spanned else of_file[file.path]
                for _, rows in replace(self.ingestion, span=own).read(reading):
                    if by_column is not None:
                        spans = span_numbers(rows.table, by_column)
                        mine = np.isin(spans, list(self._spans))
                        rows, spans = rows.filter(mine), spans[mine]
                    else:
                        spans = np.full(len(rows.numbers), of_file[file.path] if self._spanned else 0)
                    if len(rows.numbers):
                        yield reading, rows, spans
                    count += len(rows.numbers)
                    report(count, None, "rows", f"events of {file.path.rsplit('/', 1)[-1]}")
                    reading.take_bad()  # Ingest itself records them


class _Sorter:
    """The events of one history, dealt to files and then sorted."""

    def __init__(self, name: str, history: History, source: _EventSource, folder: str):
        self._name, self._history, self._source, self._folder = name, history, source, folder
        self._work = Path(tempfile.mkdtemp(prefix="fullpass-history-") if is_address(folder) else folder)
        self._work.mkdir(parents=True, exist_ok=True)
        self._buckets = Buckets(self._work / "unsorted", bucket_bits(source.files))
        self._sample = EventSample()
        bases = lists_of({name: history})
        self._bases = {name: bases[name] for name in source.lists if name in bases}

    def add(
        self, reading: Reading, rows: Rows, spans: np.ndarray, arrays: Mapping[str, pa.Array], good: np.ndarray
    ) -> None:
        """Adds the rows that are events: those with an entity, a date, and readable columns.

        Args:
            spans: int64 [rows].
            arrays: The raw and joined columns of events.
            good: bool [rows], whether these are readable.
        """
        history, text = self._history, self._source.config.source.raw_text
        with prefix_errors(reading.path):
            times, known, _ = times_of(rows.table, history.at, text, history.format)
            keys = keys_of(rows.table, history.keys, text)
        values = {}
        for name, base in self._bases.items():
            values[name] = self._values(name, base, arrays, reading, rows)
        usable = good & known & keys.present
        if not usable.any():
            return
        self._sample.add(keys, usable, times, spans, pa.table(values))
        found = {FIRST: keys.first, SECOND: keys.second, TIME: times, SPAN: spans.astype(np.int64)}
        self._buckets.add(pa.table({**found, **values}).filter(pa.array(usable)))

    def _values(self, name: str, base: str, arrays: Mapping[str, pa.Array], reading: Reading, rows: Rows) -> pa.Array:
        """Returns the elements of a list: float32 or binary [rows], NaN or "" for missing."""
        column, ingestion, config = self._source.lists[name], self._source.ingestion, self._source.config
        wanted = pa.float32() if column.type == "number" else pa.binary()
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
                    f"data.history.{self._name}: {name} is read as numbers, but {base} as text: {bad.text[:80]!r} in "
                    f"{bad.file}, row {bad.row}, is {bad.reason}. Derive a number from {base}, and keep that instead."
                )
        if cells.type != wanted:
            raise UserError(
                f"data.history.{self._name}: {base} gives {'text' if pa.types.is_binary(cells.type) else 'numbers'}, "
                f"but {name} is read as a {column.type}. Declare it: types: {{{name}: "
                f"{'string' if pa.types.is_binary(cells.type) else 'number'}}}."
            )
        return cells.fill_null(float("nan") if column.type == "number" else b"")

    def index(self) -> EventIndex:
        """Sorts the events, and returns their index."""
        events, ordered = self._write_sorted()
        self._sample.write(str(self._work))
        publish_index(self._work, self._folder)
        lists = tuple(c for n, c in self._source.lists.items() if history_of(n, {self._name: self._history}))
        files = tuple(file.path for file in self._source.files)
        logging.info("history %s: %s events in %s files", self._name, f"{events:,}", len(files))
        return EventIndex(self._name, self._history, lists, self._folder, files, events, ordered)

    def _write_sorted(self) -> tuple[int, bool]:
        """Writes the files of the index; returns the number of events, and whether spans are in order of time."""
        total, ordered = 0, True
        with ExitStack() as files:
            own = {name: files.enter_context(open(self._work / name, "wb")) for name in _OWN}
            writer = None
            for bucket in self._buckets.tables():
                keys = {name: bucket.column(name).to_numpy() for name in _OWN}
                order = np.lexsort((keys[TIME], keys[SECOND], keys[FIRST]))  # stable: equal times stay as in the source
                keys = {name: array[order] for name, array in keys.items()}
                same = (keys[FIRST][1:] == keys[FIRST][:-1]) & (keys[SECOND][1:] == keys[SECOND][:-1])
                ordered &= not (same & (keys[SPAN][1:] < keys[SPAN][:-1])).any()
                for name, file in own.items():
                    keys[name].tofile(file)
                values = bucket.drop(list(_OWN)).combine_chunks()
                if values.num_columns:
                    values = values.take(pa.array(order))
                writer = writer or files.enter_context(pa.ipc.new_file(str(self._work / VALUES), values.schema))
                writer.write_table(values)
                total += len(order)
        return total, ordered
