"""One ingestion: its files, and how their rows are read, converted and assigned to splits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pyarrow as pa
from tfx.dsl.io import fileio

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import IngestConfig, StratifiedSplit
from fullpass.components.ingest.history.event_index import EventIndex, with_lists
from fullpass.components.ingest.history.shifted_index import ShiftedIndex
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import is_joined
from fullpass.components.ingest.joins.join_index import LOOKUP, JoinIndex, joined_arrays, with_keys
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.read_source import read_rows
from fullpass.components.ingest.readers.readable import EmptyFileError
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.readers.rows import FilePart, Reading, RowBatch, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.components.ingest.spans.span_column import rows_of_span, rows_without_span, span_numbers
from fullpass.components.ingest.splitting.assign import assign, raw_split_columns, reads_whole_rows
from fullpass.components.ingest.splitting.stratified import Cuts, classes_of, splits_by_cuts
from fullpass.components.ingest.writing.shards import ShardLayout
from fullpass.preprocessing.columns.raw_columns import SPAN_FILE_BITS, RawColumn, span_in_row_ids, with_source_columns
from fullpass.preprocessing.features.history import history_of, lists_of
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import TABLES


@dataclass(frozen=True)
class Ingestion:
    """The files of a source, or of one span of it, and what is made of them.

    Attributes:
        cuts: Cuts of a stratified split, computed in an earlier pass.
        joins: The joined tables, once `with_joins` has read them.
        histories: The events of the histories, once `with_histories` has read them.
        forecast: The values of the label of a forecast, once `with_histories` has read them.
        span: Number of the span; None if the source has no spans.
        text_rules: Rules for reading text as values; None: those of the source.
    """

    config: IngestConfig
    files: tuple[SourceFile, ...]
    splits: tuple[str, ...]
    columns: tuple[RawColumn, ...]
    folder: str
    gzip: bool
    cuts: Cuts = field(default_factory=dict)
    joins: tuple[JoinIndex, ...] = ()
    histories: tuple[EventIndex, ...] = ()
    forecast: ShiftedIndex | None = None
    span: int | None = None
    text_rules: RawText | None = None

    @property
    def text(self) -> RawText:
        """Rules for reading text as values."""
        return self.text_rules or self.config.source.raw_text

    @property
    def first_file(self) -> int:
        """The number of the first file in row ids. It differs between the spans of a window, so row ids are unique.

        Raises:
            UserError: The span has too many files for the bits of a row id.
        """
        if self.span is None:
            return 0
        if len(self.files) > 1 << SPAN_FILE_BITS:
            raise UserError(
                f"data.source.path: a span has {len(self.files):,} files; the most is {1 << SPAN_FILE_BITS:,}. Join "
                "small files."
            )
        return span_in_row_ids(self.span) << SPAN_FILE_BITS

    @property
    def layout(self) -> ShardLayout:
        """Layout of the written files."""
        return self.config.records.layout(gzip=self.gzip)

    def reading(self, file: SourceFile, part: FilePart) -> Reading:
        """Returns the reading of a part: the columns of the examples, and those of split, span and joins."""
        config = self.config
        columns = {column.name: column for column in self._columns_read()}
        named = (*raw_split_columns(config.split), *([config.span.column] if config.span else []))
        columns |= {name: RawColumn(name, "string") for name in named if name not in columns}
        # Keys are read as text, since a number loses the spelling of its token.
        columns |= {name: RawColumn(name, "string") for name in self._keys_read()}
        own = {name: column for name, column in columns.items() if not is_joined(name, config.joins)}
        needs_all_columns = file.split is None and reads_whole_rows(config.split)
        return Reading(file, own, part, all_columns="to_hash" if needs_all_columns else None)

    def batches(self, reading: Reading) -> Iterator[RowBatch]:
        """Yields the rows of the span as they are encoded, in batches of bounded bytes.

        Rows that are not usable are added to `reading`, with the reason: bad ones, and those that a forecast has no
        label for.
        """
        for rows in self.read(reading):
            for batch in with_lists(self.histories, self.convert(reading, rows), reading, self.text, self.span):
                if self.forecast is not None:
                    shifted = self.forecast.columns_of(batch.rows, batch.good, reading, self.text, self.span)
                    batch = batch._replace(arrays=batch.arrays | shifted)
                yield batch

    def read(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows of the span with the joined columns, and counts them in `reading`.

        Rows without a span, or with a date that a join cannot read, are added to the bad rows. If a file holds many
        spans, only the rows of this span count as read. If `SourceFile.rest` is set, rows without a span count, too.
        """
        batches = self._rows_of_span(reading)
        for join in self.joins:
            batches = join.add_columns(batches, reading, self.text, self._spans_of)
        return batches

    def _spans_of(self, table: pa.Table) -> int | np.ndarray:
        by = self.config.span if self.span is None else None
        return self.span or 0 if by is None else span_numbers(table, by, self.text.decimal)

    def _rows_of_span(self, reading: Reading) -> Iterator[Rows]:
        span = self.config.span
        if span is None or self.span is None:
            try:
                for rows in read_rows(reading, self.config.source):
                    reading.read += len(rows.numbers)
                    yield rows
            except EmptyFileError:
                if self.span is None:
                    raise
                # An empty file of a span is a day without rows, as a file with a header line only is.
            return
        batches = read_rows(reading, self.config.source)
        while True:
            noted = len(reading.bad)
            rows_of_file = next(batches, None)
            if not reading.file.rest:
                del reading.bad[noted:]  # rows that do not parse have no span
            if rows_of_file is None:
                break
            own, lost = rows_of_span(rows_of_file, span, self.span, self.text.decimal), 0
            without = rows_without_span(rows_of_file, span, self.text.decimal) if reading.file.rest else ()
            for number, text in without:
                reading.add_bad(number, span.column, "contains no span", text)
                lost += 1
            reading.read += len(own.numbers) + lost
            if len(own.numbers):
                yield own
        if not reading.file.rest:
            reading.malformed = 0

    def convert(self, reading: Reading, rows: Rows) -> RowBatch:
        """Returns the rows as they are encoded, without what other rows give; bad ones are added to `reading`."""
        columns, joins, text = self._columns_read(), self.config.joins, self.text
        own = [column for column in columns if not is_joined(column.name, joins)]
        arrays, good = convert_rows(own, text, reading, rows)
        joined, fit = joined_arrays([c for c in columns if c.name not in arrays], joins, reading, rows)
        return RowBatch(rows, arrays | joined, good & fit)

    def classes_and_hashes(self, rows: Rows, arrays: Mapping[str, pa.Array]) -> tuple[pa.Array, np.ndarray]:
        """Returns the inputs of a stratified split: the class of each row, string, and its content hash, uint64."""
        column = str(getattr(self.config.split, "column", None))
        return classes_of(column, arrays, self.columns, self.config.derive), hashes(contents(rows.all_columns))

    def split_of_rows(self, index: int, file: SourceFile, rows: Rows, arrays: Mapping[str, pa.Array]) -> np.ndarray:
        """Returns the index of each row's split, int64 [rows]; NO_SPLIT if it fits no split, GAP if in a gap."""
        split = self.config.split
        if file.split is not None:
            return np.full(len(rows.numbers), self.splits.index(file.split))
        if isinstance(split, StratifiedSplit):
            return splits_by_cuts(*self.classes_and_hashes(rows, arrays), self.cuts)
        table = rows.all_columns if reads_whole_rows(split) else rows.table
        return assign(split, table, rows.numbers, file_index=index, text=self.text)

    def columns_of_events(self) -> tuple[RawColumn, ...]:
        """Returns the raw and joined columns that the events of the histories and of a forecast are made of."""
        config, known = self.config, {column.name: column for column in self.columns}
        columns: dict[str, RawColumn] = {}
        bases = lists_of(config.history)
        if config.shifted is not None:
            bases[config.shifted.label] = config.shifted.name
        for name, base in bases.items():
            if name in known and base not in config.derive:
                columns[base] = known.get(base, replace(known[name], name=base, many=False, group=None))
        derived = with_source_columns([base for base in bases.values() if base in config.derive], config.derive)
        return (*columns.values(), *(c for n, c in known.items() if n in derived and n not in columns))

    def convert_column(self, name: str, like: RawColumn, reading: Reading, rows: Rows) -> tuple[pa.Array, np.ndarray]:
        """Returns a column read as the elements of a list, and which rows fit, bool [rows]."""
        column = replace(like, name=name, many=False, group=None)
        arrays, good = convert_rows([column], self.text, reading, rows)
        return arrays[name], good

    def columns_joined(self) -> list[RawColumn]:
        """Returns the joined columns that the examples, the split or another join need."""
        named = (*raw_split_columns(self.config.split), *self._keys_read())
        columns = with_keys((*self.columns_of_events(), *self._columns_read()), named)
        return [column for name, column in columns.items() if is_joined(name, self.config.joins)]

    def _keys_read(self) -> list[str]:
        """Returns the columns of the keys and times by which rows find others."""
        config = self.config
        found = [name for join in config.joins.values() for name in join.left_columns]
        found += [name for history in config.history.values() for name in (*history.keys, history.at)]
        return found + ([*config.shifted.keys, config.shifted.at] if config.shifted else [])

    def _columns_read(self) -> tuple[RawColumn, ...]:
        """Returns the columns of the examples but those of other rows, and further ones that are checked.

        These are the column of a stratified split and the columns of events, if no feature reads them.
        """
        columns = {c.name: c for c in self.columns_of_events()}
        added = self.config.shifted.columns if self.config.shifted else {}
        own = [c for c in self.columns if c.name not in added and history_of(c.name, self.config.history) is None]
        columns |= {column.name: column for column in own}
        split = self.config.split
        if isinstance(split, StratifiedSplit) and split.column not in {*columns, *self.config.derive}:
            return (*columns.values(), RawColumn(str(split.column), "string", token=True))
        return tuple(columns.values())


def with_joins(ingestions: Sequence[Ingestion], request: Request, folder: str) -> list[Ingestion]:
    """Reads the joined tables that rows and their events see once, and returns the ingestions with them.

    Args:
        folder: Folder for the tables, which must exist while rows are read.

    Raises:
        UserError: A table cannot be read, or repeats a key.
    """
    if not ingestions or not request.config.joins:
        return list(ingestions)
    columns, most_bad = ingestions[0].columns_joined(), request.config.bad_rows.max_fraction
    sees_others = bool(request.config.history or request.config.shifted)
    numbers = {ingestion.span for ingestion in ingestions if ingestion.span is not None}
    numbers |= {span.number for span in (*request.past, *request.spans)} if sees_others else set()
    joins = tuple(
        build_index(name, join, request.joined[name].seen_by(numbers), columns, most_bad, folder)
        for name, join in request.config.joins.items()
    )
    for join, ingestion in product(joins, ingestions):
        if join.join.serve == "lookup":
            fileio.makedirs(f"{ingestion.folder}/{TABLES}")
            fileio.copy(f"{join.folder}/{LOOKUP}", f"{ingestion.folder}/{TABLES}/{join.name}.arrow", overwrite=True)
    return [replace(ingestion, joins=joins) for ingestion in ingestions]


def ingestion_of(request: Request, span: SpanRequest, folder: str) -> Ingestion:
    """Returns the ingestion of one span of a request into a folder."""
    number = span.number if request.spanned else None
    return Ingestion(
        request.config, span.files, request.splits, request.columns, folder, gzip=request.gzip, span=number
    )
