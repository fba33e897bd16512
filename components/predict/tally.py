"""Counts predicted rows, and keeps those without a prediction, with their reasons."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.base.files import named_errors, pending_file
from fullpass.components.ingest.readers.rows import BadRow
from fullpass.components.predict.write_tables import row_json
from fullpass.preprocessing.dates.read_dates import read_dates

_SHOWN_REASONS = 3
"""Number of reasons that notes and errors name: what is frequent is to be mended first."""


class Tally:
    """Counts rows, and those without a prediction by their reasons.

    Attributes:
        rows: Number of rows read so far.
        bad: Number of these rows without a prediction.
        absent: Raw columns that are in no row read so far; they count as missing in every row.
        unread: Raw column -> the number of its texts that are no dates of the model, and why they are none.
        quarantine: File with the bad rows; None if there is none.
    """

    def __init__(self, path: str):
        """Starts with no rows of the input `path`."""
        self._path = path
        self._by_reason: dict[tuple[str | None, str], tuple[int, BadRow]] = {}
        self.rows = self.bad = 0
        self.absent: tuple[str, ...] = ()
        self.unread: dict[str, tuple[int, str]] = {}
        self.quarantine: str | None = None

    def add(self, rows: int, bad: Iterable[tuple[int, BadRow]], unread: Mapping[str, tuple[int, str]]) -> None:
        """Counts rows.

        Args:
            bad: The number of bad rows with a reason, and the first of them.
            unread: As the attribute; the first text of a column is shown.
        """
        self.rows += rows
        for count, row in bad:
            self.bad += count
            before, first = self._by_reason.get((row.column, row.reason), (0, row))
            self._by_reason[row.column, row.reason] = before + count, first
        for column, (count, why) in unread.items():
            number, shown = self.unread.get(column, (0, why))
            self.unread[column] = number + count, shown

    def record(self) -> dict[str, Any]:
        """Returns the counts as JSON takes them."""
        bad = [[count, asdict(row)] for count, row in self._by_reason.values()]
        return {"rows": self.rows, "bad": bad, "absent": self.absent, "unread": self.unread}

    def add_record(self, record: Mapping[str, Any]) -> None:
        """Counts the rows of another tally of the same input, from its `record`."""
        if record["rows"]:
            self.absent = tuple(name for name in record["absent"] if not self.rows or name in self.absent)
        self.add(record["rows"], [(count, BadRow(**row)) for count, row in record["bad"]], record["unread"])

    def check(self) -> None:
        """Checks that a row can be used.

        Raises:
            UserError: There is none.
        """
        if not self.rows:
            raise UserError(f"{self._path}: no rows.")
        if self.bad == self.rows:
            why = "\n  ".join(("", *self.reasons))
            raise UserError(f"{self._path}: none of its {self.rows:,} rows can be used.{why}")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The most frequent reasons why rows have no prediction, as text."""
        return tuple(
            f"{count:,} x {describe_bad_row(None, row.column, row.reason)}; first: {row.shown}"
            for count, row in sorted(self._by_reason.values(), key=lambda entry: -entry[0])[:_SHOWN_REASONS]
        )

    def notes(self) -> list[str]:
        """Returns notes for people about rows without a prediction and about absent columns, line by line."""
        lines = []
        if self.bad:
            kept = f"; they are in {self.quarantine}" if self.quarantine else ""
            lines = [f"{self.bad:,} of {self.rows:,} rows have no prediction{kept}. Most frequent reasons:"]
            lines += [f"  {reason}" for reason in self.reasons]
        if self.absent:
            lines.append(f"Columns that {self._path} lacks, taken as missing: {', '.join(self.absent)}")
        lines += [
            f"Column {column!r}: {count:,} values are taken as missing: {why}"
            for column, (count, why) in self.unread.items()
        ]
        return lines


class Quarantine:
    """A file of bad rows. It appears when it is complete, and only if there are bad rows."""

    def __init__(self, path: str):
        self.path = path
        self._file: IO[str] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Quarantine":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if self._file is None and error[0] is None and os.path.exists(self.path):
            os.unlink(self.path)  # from an earlier output of the same name

    def keep(
        self, predicted: Iterable[tuple[pa.Table, Sequence[BadRow]]], check: Callable[[], None] = lambda: None
    ) -> Iterator[pa.Table]:
        """Yields the tables and writes their bad rows; calls `check` after the last of them."""
        for table, bad in predicted:
            if bad and self._file is None:
                pending = self._stack.enter_context(pending_file(Path(self.path)))
                self._file = self._stack.enter_context(open(pending, "w", encoding="utf-8"))
            if self._file is not None:
                with named_errors(Path(self.path)):
                    self._file.writelines(row_json(asdict(row)) + "\n" for row in bad)
            yield table
        check()


def unread_dates(dates: Mapping[str, Sequence[str]], inputs: Mapping[str, np.ndarray]) -> dict[str, tuple[int, str]]:
    """Returns column -> the number of its texts that have no format of its features, and why the first has none."""
    found = {}
    for column, formats in dates.items():
        if column in inputs and inputs[column].ndim == 1:
            cells = pa.array(inputs[column], pa.binary()).dictionary_encode()
            texts = [cell.decode("utf-8", "replace") for cell in cells.dictionary.to_pylist()]
            read = [read_dates(pa.array(texts, pa.string()), format).valid for format in formats]
            wrong = ~np.any(read, axis=0) & (np.array(texts, object) != "")
            if wrong.any():
                count = int(wrong[cells.indices.to_numpy()].sum())
                first = texts[int(np.flatnonzero(wrong)[0])]
                found[column] = count, f"{first!r} is no date in the format {' or '.join(formats)}."
    return found


def describe_bad_row(row: int | None, column: str | None, reason: str) -> str:
    """Returns where a cell is and what is wrong with it, such as `row 3: column 'x': not a number`."""
    where = [f"row {row}"] if row is not None else []
    return ": ".join([*where, *([f"column {column!r}"] if column else []), reason])
