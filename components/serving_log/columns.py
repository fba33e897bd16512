"""The columns and the files of the request log, which `fullpass serve` writes and `fullpass watch` reads.

A line is one row of a request: the raw columns that the model read, under their own names, and the columns of
`COLUMNS`. A cell without a value is absent or null. A refused request has one line without a row number, or one per row
with those columns that could be read.

    FOLDER/2026-11-29/093000.250000-4711-1.jsonl        complete; never changes again
    FOLDER/2026-11-29/093100.250000-4711-2.jsonl.open   being written, by a process that holds its lock (flock)

The folder is the day of `log_time`, in UTC. A file that ends with `OPEN` is no input for a reader: its last line may be
torn. The process that writes it gives it its final name; after `kill -9`, the next start does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fullpass.base.errors import UserError, listed

PREFIX = "log_"
"""Begins the names of the log's own columns, and of no raw column."""
DAY = "%Y-%m-%d"
"""Format of the folder of a day, in UTC."""
OPEN = ".open"
"""Ends the name of a file that is being written."""
FIRST_REFUSED = 400
"""The first HTTP status of a refused request."""
LogFormat = Literal["jsonl", "parquet"]
"""Format of complete files, which their names end with. A file that is being written holds JSON lines."""


@dataclass(frozen=True)
class LogColumn:
    """A column of the log.

    Attributes:
        type: Of a cell, or with `many` of the elements of its list. A float32 is written with the fewest digits that
            read back as the same float32.
        unit: The unit or format; empty for a plain name or count.
    """

    name: str
    type: Literal["string", "int64", "float32", "float64"]
    meaning: str
    unit: str = ""
    many: bool = False


ID = LogColumn("log_id", "string", "Id of the row: the caller's if the request has one, or request and row number.")
REQUEST = LogColumn("log_request", "string", "Id of the request: the caller's X-Request-Id, or a random one.")
ROW = LogColumn("log_row", "int64", "Number of the row in its request, from 0; absent if no row could be read.")
TIME = LogColumn("log_time", "string", "When the request arrived.", "UTC, ISO 8601: 2026-11-29T09:30:00.250000Z")
VERSION = LogColumn("log_version", "int64", "Version of the model that answered.")
SAMPLED = LogColumn("log_sampled", "float64", "Probability with which the request is logged; its weight is 1 / p.")
LATENCY = LogColumn("log_latency_ms", "float64", "Time until the answer of the whole request was ready.", "ms")
STATUS = LogColumn("log_status", "int64", "Status of the answer.", "HTTP status code")
ERROR = LogColumn("log_error", "string", "Why the request was refused; absent if it was answered.")
SCORES = LogColumn(
    "log_scores",
    "float32",
    "`scores` of the model: one of a binary task or regression, else one per class; null where it is not finite.",
    many=True,
)
LABEL = LogColumn("log_label", "string", "`prediction` of the model; absent in a regression.")

COLUMNS = (ID, REQUEST, ROW, TIME, VERSION, SAMPLED, LATENCY, STATUS, ERROR, SCORES, LABEL)
"""The log's own columns, in the order of a line, before the raw columns."""


def refuse_own_names(raw: Iterable[str]) -> None:
    """Checks that no raw column has a name of the log.

    Raises:
        UserError: One has.
    """
    taken = [name for name in raw if name.startswith(PREFIX)]
    if taken:
        raise UserError(
            f"The request log cannot hold the columns {listed(taken)} of the model: names that begin with {PREFIX!r} "
            "are the log's own. Rename them in the data and train again."
        )
