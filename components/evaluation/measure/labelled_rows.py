"""Reads labelled rows of files with Ingest's readers as serialized tf.Examples, and accounts for every row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.ingestion import Ingestion, ingestion_of, with_joins
from fullpass.components.ingest.joins.config import is_joined, joined_columns
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file
from fullpass.components.ingest.readers.rows import WHOLE, BadRow
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.ingest.writing.encode import encode_features, examples, examples_as_bytes
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, ROW_BITS, RawColumn, raw_columns, with_source_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.history import History, history_of
from fullpass.preprocessing.values.arrow_text import as_readable
from fullpass.preprocessing.values.raw_text import RawText

_SHOWN, _MOST_LABELS = 5, 100
"""Numbers of reasons or rows that a message names, and of labels that are kept to say which ones a model lacks."""
_EVERY_ROW = {"split": RandomSplit(method="random"), "bad_rows": BadRows(max_fraction=1.0)}


@dataclass
class LabelledRows:
    """The rows of some files, as a model's Ingest would write them. Iterate once, then read the counts.

    Joins, histories and the label of a forecast are computed as Ingest does, but for what the files have already.

    Attributes:
        window: The files, by span.
        config: How Ingest reads the rows.
        preprocessing: The features and the label of the model.
        joined: The joins of training.
        text: Rules for reading text as values, as in training; None: those of the source.
        rows: Number of rows read, with bad ones and those that were left out.
        left_out: Reason -> number of rows that have no label.
        seen: Raw columns in the rows read.
        labels: Label texts in the rows read, about 100 at most.
    """

    window: Window
    config: IngestConfig
    preprocessing: PreprocessingConfig
    joined: Sequence[str] = ()
    text: RawText | None = None
    rows: int = 0
    bad: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    _reasons: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    _first: dict[tuple[str | None, str], BadRow] = field(default_factory=dict)

    @property
    def files(self) -> Sequence[SourceFile]:
        """The files, in the order of their numbers in row ids."""
        return self.window.files

    @cached_property
    def columns(self) -> dict[str, RawColumn]:
        """The raw columns that the model's training reads."""
        baselines = self.preprocessing.label.added[1:]
        return {name: column for name, column in raw_columns(self.preprocessing).items() if name not in baselines}

    @cached_property
    def _given(self) -> list[str]:
        """The columns of the first file, as far as it tells them."""
        return columns_of_file(self.files[0], self.config.source) or []

    @cached_property
    def request(self) -> Request:
        """The request to Ingest: it computes the lists and the label that the first file does not have."""
        given = self._given
        histories = {
            name: history
            for name, history in self.config.history.items()
            if any(history_of(column, {name: history}) for column in self.columns)
            and not any(history_of(column, {name: history}) for column in given)
        }
        shifted = self.config.shifted
        if shifted is not None:
            columns = {shifted.label: shifted.columns[shifted.label]}
            shifted = None if shifted.label in given else shifted.model_copy(update={"columns": columns})
        config = self.config.model_copy(update={**_EVERY_ROW, "history": histories, "shifted": shifted})
        request = Request(config, (), tuple(self.columns.values()), gzip=False).with_window(self.window, ())
        return request.limited_to(request.spans)

    @property
    def needed(self) -> set[str]:
        """The raw columns without which no row can be measured: those of the label, and of the weight."""
        label, shifted = self.preprocessing.label, self.request.config.shifted
        behind = {label.column} if shifted is None else {shifted.name, *shifted.keys, shifted.at}
        behind |= {*filter(None, (label.weight,))}
        return with_source_columns(behind, self.preprocessing.derive) - {*self.preprocessing.derive}

    @property
    def absent(self) -> tuple[str, ...]:
        """Raw columns that are in no row; the model takes them as missing."""
        return tuple(name for name in self.columns if name not in self.seen)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The most frequent reasons why rows are bad, with the first row of each."""
        lines = []
        for (column, reason), count in self._reasons.most_common(_SHOWN):
            row = self._first[column, reason]
            lines.append(f"{count:,} x {row.why}; first: {row.shown}")
        return tuple(lines)

    def labels_unknown_to(self, classes: Sequence[str]) -> list[str]:
        """Returns the label texts in the rows read that mean none of the classes of a model."""
        found = {text: self.preprocessing.label.classes_of(text, classes) for text in self.labels}
        return sorted(text for text, of in found.items() if of is None or (of and not {*of} & {*classes}))

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The rows of a forecast that were left out, with the reason."""
        return tuple(f"{count:,} of {self.rows:,} rows: {reason}" for reason, count in self.left_out.items() if count)

    @property
    def short_histories(self) -> tuple[str, ...]:
        """The histories of which a file may lack the beginning, as text; none of a YAML, whose spans are all read."""
        names = self.request.config.history if self.text is not None else ()
        return tuple(
            f"history {name}: its events are the rows of this data alone, so early rows have few" for name in names
        )

    def located(self, row_ids: np.ndarray) -> str:
        """Returns `file, rows 3, 5 and 2 more` for the first file of some row ids."""
        file = int(row_ids.min()) >> ROW_BITS
        numbers = [str(int(one) & (1 << ROW_BITS) - 1) for one in np.sort(row_ids) if int(one) >> ROW_BITS == file]
        return f"{self.files[file].path}, row{'s' * (len(numbers) > 1)} {listed(numbers, most=_SHOWN)}"

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yields the usable rows as serialized tf.Examples.

        Raises:
            UserError: A file cannot be read, or lacks the label, the weight, or what its joined columns and lists are
                made of; there are no rows.
        """
        request, first = self.request, self.files[0].path
        columns = columns_of(self.files[0], self.config.source)
        if columns is not None:
            self._check(first, columns)
        with TemporaryDirectory() as folder:
            made = [ingestion_of(request, span, f"{folder}/{span.number}") for span in request.spans]
            made = [replace(ingestion, text_rules=self.text) for ingestion in made]
            made = with_histories(with_joins(made, request, f"{folder}/joins"), request, f"{folder}/history")
            pairs = [(ingestion, file) for ingestion in made for file in ingestion.files]
            for number, (ingestion, file) in enumerate(pairs):
                yield from self._read(number, file, ingestion)
        if not self.rows:
            raise UserError(f"{first}: no rows.")
        if columns is None:
            self._check(first, [*self.seen])
        if self.bad == self.rows:
            raise UserError("\n  ".join([f"{first}: none of {self.rows:,} rows can be used.", *self.reasons]))

    def _read(self, number: int, file: SourceFile, ingestion: Ingestion) -> Iterator[list[bytes]]:
        present, made = columns_of(file, ingestion.config.source), self._made(ingestion.config)
        if present is not None:
            self._check(file.path, present)
            kept = [column for column in ingestion.columns if column.name in {*present, *made}]
            ingestion = replace(ingestion, columns=tuple(kept))
        reading = ingestion.reading(file, WHOLE)
        for rows, arrays, good in ingestion.batches(reading):
            self._count(reading.take_bad())
            self._note_labels(arrays.get(self.preprocessing.label.column))
            ids = pa.array((number << ROW_BITS) + rows.numbers)
            if good.any():
                columns = {column.name: arrays[column.name] for column in ingestion.columns}
                yield examples_as_bytes(examples(encode_features({**columns, RAW_ROW_ID: ids})).filter(pa.array(good)))
        self.rows += reading.read + reading.malformed
        self.left_out += reading.left_out
        self._count(reading.take_bad())
        self.seen |= made
        self.seen |= {column.name for column in ingestion.columns} if present is not None else reading.seen

    def _note_labels(self, cells: pa.Array | None) -> None:
        if cells is not None and pa.types.is_binary(cells.type) and len(self.labels) < _MOST_LABELS:
            self.labels |= {*as_readable(cells.unique().drop_null()[:_MOST_LABELS]).to_pylist()}

    def _made(self, config: IngestConfig) -> set[str]:
        shifted = config.shifted.label if config.shifted else None
        return {
            name
            for name in self.columns
            if is_joined(name, config.joins) or history_of(name, config.history) or name == shifted
        }

    def _count(self, bad: Sequence[BadRow]) -> None:
        self.bad += len(bad)
        for row in bad:
            self._reasons[row.column, row.reason] += 1
            self._first.setdefault((row.column, row.reason), row)

    def _check(self, path: str, present: Sequence[str]) -> None:
        """Checks that a file has what label, weight, joined columns and histories are made of."""
        config, label = self.request.config, self.preprocessing.label
        there = {*present, *self._made(config)}
        for name in self.joined:
            lacking = joined_columns(name, self.columns)
            if lacking and not {*lacking} & there:
                raise UserError(
                    f"{path}: the columns {listed(list(lacking))} are absent, which training joined. Give them in the "
                    "file, or give a YAML that names the rows in data.source and the table in data.joins."
                )
        for name in sorted(self.needed - there):
            what = f"the weight {label.weight!r}" if name == label.weight else f"the label {label.column!r}"
            raise UserError(
                f"{path}: no column {name!r}, which {what} needs, so no metric can be measured."
                f"{did_you_mean(name, present)} Columns: {listed(list(present))}."
            )
        for name, history in config.history.items():
            for column in sorted(self._behind(history) - there):
                lists = listed([list_ for list_ in self.columns if history_of(list_, {name: history})])
                raise UserError(
                    f"{path}: no column {column!r}, of which the history {name} is made."
                    f"{did_you_mean(column, present)} Give it, or the lists of the history: {lists}."
                )

    def _behind(self, history: History) -> set[str]:
        derive = self.preprocessing.derive
        return with_source_columns({*history.keys, history.at, *history.columns}, derive) - {*derive}
