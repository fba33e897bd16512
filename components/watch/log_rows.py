"""Reads the rows of a request log with Ingest's readers, and adds the labels that are known by a time."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.joins.join_index import JoinIndex, keys_of, times_of
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.read_source import columns_of, read_rows
from fullpass.components.ingest.readers.rows import BadRow, Reading, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.serving_log.columns import FIRST_REFUSED
from fullpass.components.watch.config import WATCHED_AT, ServingLogConfig
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import as_readable
from fullpass.preprocessing.values.list_values import flatten, lengths_of
from fullpass.preprocessing.values.shown_cells import text_at

_ID_BITS = np.uint64(2)


@dataclass(frozen=True)
class LoggedColumns:
    """The columns of a version.

    Attributes:
        columns: The raw columns that its training reads, as requests have them.
        late: Those that only training has, such as what the label is made of.
    """

    columns: Mapping[str, RawColumn]
    late: Mapping[str, RawColumn]


@dataclass(frozen=True)
class LogBatch:
    """Some answered rows of one version.

    Attributes:
        row_ids: A hash of their ids, int64 [rows], the same in every format.
        times: Microseconds since 1970 UTC, int64 [rows].
        rates: The probability with which each is logged, float64 [rows].
        arrays: Raw column -> its values in the form of a tf.Example; of late columns, those of the label table.
        labelled: Whether a label was found, bool [rows].
        known_at: When it was known, microseconds, int64 [rows]; 0 where that is not known.
        scores: The answered scores, float32 [rows, scores], NaN where absent; None if the log has none.
        answers: The answered classes, string [rows]; None if the log has none.
        ids: string [rows].
    """

    version: int
    row_ids: np.ndarray
    times: np.ndarray
    rates: np.ndarray
    arrays: Mapping[str, pa.Array]
    labelled: np.ndarray
    known_at: np.ndarray
    scores: np.ndarray | None
    answers: pa.Array | None
    ids: pa.Array

    def chosen(self, mask: np.ndarray) -> "LogBatch":
        """Returns the rows of a mask, bool [rows]."""
        kept = pa.array(mask)
        return LogBatch(
            self.version,
            self.row_ids[mask],
            self.times[mask],
            self.rates[mask],
            {name: array.filter(kept) for name, array in self.arrays.items()},
            self.labelled[mask],
            self.known_at[mask],
            None if self.scores is None else self.scores[mask],
            None if self.answers is None else self.answers.filter(kept),
            self.ids.filter(kept),
        )


@dataclass(frozen=True)
class Refused:
    """Refused rows: their version, time and rate, as in `LogBatch`."""

    version: np.ndarray
    times: np.ndarray
    rates: np.ndarray


@dataclass
class ReadCount:
    """What was read: rows, those after the time of the watch, and bad ones by reason, each with its first row."""

    rows: int = 0
    later: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    first: dict[str, BadRow] = field(default_factory=dict)

    def add(self, bad: Sequence[BadRow]) -> None:
        """Counts bad rows."""
        for row in bad:
            self.bad[row.why] += 1
            self.first.setdefault(row.why, row)

    def join(self, other: "ReadCount") -> None:
        """Adds another count."""
        self.rows, self.later, self.bad = self.rows + other.rows, self.later + other.later, self.bad + other.bad
        self.first = other.first | self.first


@dataclass(frozen=True)
class LogReader:
    """How the rows of a log are read. It is sent to workers.

    Attributes:
        versions: The columns of each version whose model is here; rows of others are counted only.
        served: The version of rows without one.
        since, until: The first time of rows, and the first one that is too late, in microseconds.
        labels: The table of the labels, ready to find rows in; None if there is none.
        at: The column of the table that tells when a label was known.
    """

    log: ServingLogConfig
    versions: Mapping[int, LoggedColumns]
    served: int
    since: int
    until: int
    labels: JoinIndex | None = None
    at: str | None = None

    def read(self, file: SourceFile, count: ReadCount) -> Iterator[LogBatch | Refused]:
        """Yields the rows of a file, those of each version apart; counts all of them."""
        present = columns_of(file, self.log.source)
        own = self._own(present)
        wanted = {name: one for of in self.versions.values() for name, one in {**of.late, **of.columns}.items()}
        if present is not None:
            wanted = {name: column for name, column in wanted.items() if name in present}
        keys = self.labels.join.keys if self.labels is not None else {}
        needed = {**wanted, **{name: RawColumn(name, "string") for name in keys}, **own}
        reading = Reading(file, needed)
        for rows in read_rows(reading, self.log.source):
            count.rows += len(rows.numbers)
            yield from self._batches(rows, reading, own, count)
            count.add(reading.take_bad())
        count.rows += reading.malformed
        count.add(reading.take_bad())

    def _own(self, present: Collection[str] | None) -> dict[str, RawColumn]:
        """Returns the log's own columns among those that a file has, by name. present: None if they are not known."""
        kinds = {"sampled": "number", "status": "number", "scores": "number"}
        own = {
            name: RawColumn(name, kinds.get(key, "string"), many=key == "scores", token=key == "version")  # type: ignore[arg-type]
            for key, name in self.log.own.items()
        }
        must = (self.log.id, self.log.time)
        return {name: column for name, column in own.items() if present is None or name in present or name in must}

    def _batches(
        self, rows: Rows, reading: Reading, own: Mapping[str, RawColumn], count: ReadCount
    ) -> Iterator[LogBatch | Refused]:
        text = self.log.source.raw_text
        found, good = convert_rows(own.values(), text, reading, rows)
        times, timed, _ = times_of(rows.table, self.log.time, text, self.log.format)
        for row in np.flatnonzero(good & ~timed).tolist():
            received = text_at(rows.table.column(self.log.time), row)
            reading.add_bad(int(rows.numbers[row]), self.log.time, f"no time of the format {self.log.format}", received)
        good &= timed
        inside = (times >= self.since) & (times < self.until)
        count.later += int((good & (times >= self.until)).sum())
        good &= inside
        version = _whole(found.get(self.log.version), len(good), self.served)
        rates = _numbers(found.get(self.log.sampled), len(good), 1.0)
        for row in np.flatnonzero(good & ~((rates > 0) & (rates <= 1))).tolist():
            reading.add_bad(int(rows.numbers[row]), self.log.sampled, "no probability", str(rates[row]))
        good &= (rates > 0) & (rates <= 1)
        refused = good & (_numbers(found.get(self.log.status), len(good), 200.0) >= FIRST_REFUSED)
        known = np.isin(version, list(self.versions))
        if (others := refused | (good & ~known)).any():
            yield Refused(np.where(refused, version, -version)[others], times[others], rates[others])
        for one in np.unique(version[good & ~refused & known]).tolist():
            mask = good & ~refused & (version == one)
            yield self._of_version(one, mask, rows, reading, found, times, rates)

    def _of_version(
        self,
        version: int,
        mask: np.ndarray,
        rows: Rows,
        reading: Reading,
        own: Mapping[str, pa.Array],
        times: np.ndarray,
        rates: np.ndarray,
    ) -> LogBatch:
        of, mine, kept = self.versions[version], rows.filter(mask), pa.array(mask)
        text = self.log.source.raw_text
        needed = [column for name, column in of.columns.items() if name in mine.table.column_names]
        arrays, good = convert_rows(needed, text, reading, mine)
        labelled, known_at, late = self._labels(mine, of, reading)
        ids = keys_of(mine.table, [self.log.id], text)
        found = {name: array.filter(kept) for name, array in own.items()}
        batch = LogBatch(
            version,
            (ids.first >> _ID_BITS).astype(np.int64),
            times[mask],
            rates[mask],
            arrays | late,
            labelled,
            known_at,
            _scores(found.get(self.log.scores)),
            None if self.log.label not in found else as_readable(found[self.log.label]),
            as_readable(found[self.log.id]),
        )
        return batch if good.all() else batch.chosen(good)

    def _labels(
        self, rows: Rows, of: LoggedColumns, reading: Reading
    ) -> tuple[np.ndarray, np.ndarray, dict[str, pa.Array]]:
        """Returns which rows have a label, when it was known, and the late columns by name."""
        number, text = len(rows.numbers), self.log.source.raw_text
        if self.labels is None:  # a log may hold late columns itself
            mine = [column for name, column in of.late.items() if name in rows.table.column_names]
            arrays, _ = convert_rows(mine, text, reading, rows)
            there = [np.asarray(array.is_valid()) for array in arrays.values()]
            return np.any(there, axis=0) if there else np.zeros(number, bool), np.zeros(number, np.int64), arrays
        moment = pa.array([np.datetime64(self.until, "us").item().isoformat()] * number, pa.string())
        table = rows.table.append_column(WATCHED_AT, moment)
        positions, _ = self.labels.find(table, text)
        columns = {name.partition(".")[2]: of for name, of in self.labels.columns_at(positions)}
        late = {name: columns[name].combine_chunks() for name in of.late if name in columns}
        known = np.zeros(number, np.int64)
        if self.at is not None:
            table = pa.table({self.at: columns[self.at]})
            rule = self.labels.join.as_of
            format = "iso" if rule is None else rule.right_format or rule.format
            known, valid, _ = times_of(table, self.at, text, format)
            known = np.where(valid, known, 0)
        return positions >= 0, known, late


def _numbers(array: pa.Array | None, rows: int, absent: float) -> np.ndarray:
    if array is None or pa.types.is_null(array.type):
        return np.full(rows, absent)
    return array.cast(pa.float64()).fill_null(absent).to_numpy(zero_copy_only=False)


def _whole(array: pa.Array | None, rows: int, absent: int) -> np.ndarray:
    if array is None or pa.types.is_null(array.type):
        return np.full(rows, absent, np.int64)
    distinct = as_readable(array).dictionary_encode()
    numbers = [int(text) if text and text.isdigit() else absent for text in distinct.dictionary.to_pylist()]
    return np.array([*numbers, absent], np.int64)[distinct.indices.fill_null(len(numbers)).to_numpy()]


def _scores(array: pa.Array | None) -> np.ndarray | None:
    """Returns lists of scores as an array, float32 [rows, scores]; None if there are none."""
    if array is None or pa.types.is_null(array.type):
        return None
    lengths = lengths_of(array)
    width = int(lengths.max(initial=0))
    dense = np.full((len(array), width), np.nan, np.float32)
    dense[np.arange(width) < lengths[:, None]] = flatten(array).to_numpy(zero_copy_only=False)
    return dense if width else None
