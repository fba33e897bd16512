"""Finds the value of a column for each row's entity at other times: the label of a forecast, and its baselines.

The rows are sorted as events of a history are (`events_pass.py`); each lookup is the same binary search.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.ingest.history.event_index import keys_and_times, opened_index
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.preprocessing.features.forecast import ShiftedLabel
from fullpass.preprocessing.values.arrow_text import null_where
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import KEY_MARK

WITHOUT = "no entity or time, so no label"
"""Reason for leaving a row out."""
_SUNDAY, _NIGHT = 6, 4
"""Clocks go back on Sundays nearly everywhere, before this hour."""


def repeated_time(key: bytes, time: int, where: str = "") -> str:
    """Returns the error of two rows of an entity and a time, which a forecast cannot have.

    Args:
        key: The key of the entity, as in `Keys`.
        time: In microseconds since 1970 UTC.
        where: The places of the rows, after a colon.
    """
    at = np.datetime64(time, "us").item()
    entity = key.decode("utf-8", "replace").replace(KEY_MARK, ", ")
    told = (
        f"two rows of entity {entity!r} have the time {at.isoformat(' ')} UTC{where}. A forecast needs one row per "
        "entity and time, since the label is its value. Add up such rows before, or name further columns in entity."
    )
    if at.weekday() != _SUNDAY or at.hour >= _NIGHT:
        return told
    return (
        f"{told} If it is the hour that comes twice when daylight saving time ends, write the offset in the dates: "
        f"{at.isoformat(timespec='minutes')}+02:00 is the first one in Paris (%z in a format)."
    )


@dataclass(frozen=True)
class ShiftedIndex:
    """The sorted values of a column.

    Attributes:
        type: Type of the columns, float32 or binary.
        spans: Column of the examples -> the first and the last span that may hold its value, relative to the row's.
        folder: Folder of the index, or its address.
        files: Paths that were read.
        rows: Number of values.
    """

    shifted: ShiftedLabel
    type: pa.DataType
    spans: Mapping[str, tuple[int, int]]
    folder: str
    files: tuple[str, ...]
    rows: int

    @property
    def unlabelled(self) -> str:
        """The reason for leaving out a row without a later one."""
        return f"no row of its entity {self.shifted.ahead} later, so no label"

    def columns_of(
        self, rows: Rows, good: np.ndarray, reading: Reading, text: RawText, span: int | None
    ) -> dict[str, pa.Array]:
        """Returns the columns of each row, float32 or binary; null where the entity has no value at that time.

        Rows without a label are counted in `reading`, and their `good` is set to False; so are those with an unreadable
        date, which are bad rows.

        Args:
            good: bool [rows].
            text: Rules for reading the text of `rows`.
            span: Number of the rows' span; None if the source has no spans.
        """
        shifted = self.shifted
        keys, times, usable = keys_and_times(rows, good, reading, shifted, text)
        reading.left_out[WITHOUT] += int((good & ~usable).sum())
        good &= usable
        found: dict[str, pa.Array] = {}
        for column, offset in shifted.columns.items():
            positions = np.full(len(good), -1)
            mine = np.flatnonzero(usable)
            if self.rows and len(mine):
                positions[mine] = self._find(column, keys.first[mine], keys.second[mine], times[mine] + offset, span)
            found[column] = self._values(positions)
            if column == shifted.label:
                reading.left_out[self.unlabelled] += int((good & (positions < 0)).sum())
                good &= positions >= 0
        return found

    def _find(
        self, column: str, first: np.ndarray, second: np.ndarray, times: np.ndarray, span: int | None
    ) -> np.ndarray:
        """Returns the position of the row of each entity at a time, int64 [rows]; -1 if there is none."""
        index = opened_index(self.folder)
        at = index.lower_bound(index.time, (first, second), times)
        inside = np.minimum(at, self.rows - 1)
        same = (at < self.rows) & (index.first[inside] == first) & (index.second[inside] == second)
        same &= index.time[inside] == times
        if span is not None:
            begin, end = self.spans[column]
            same &= (index.span[inside] >= span + begin) & (index.span[inside] <= span + end)
        return np.where(same, at, -1)

    def _values(self, positions: np.ndarray) -> pa.Array:
        if not self.rows:
            return pa.nulls(len(positions), self.type)
        values = opened_index(self.folder).values.take(positions).column(0).combine_chunks()
        missing = pc.is_nan(values) if pa.types.is_floating(values.type) else pc.equal(values, b"")
        return null_where(missing, values)
