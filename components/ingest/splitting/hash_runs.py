"""Keeps the hashes of many rows in sorted files, to find rows of two splits in bounded memory.

A metric measured on rows that are also in train is measured on training data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from tfx.dsl.io import fileio

from fullpass.base.errors import UserError
from fullpass.components.ingest.config import SplitLeakage
from fullpass.components.ingest.writing.manifest import Overlap

ENTRY = np.dtype([("hash", "<u8"), ("what", "<i8")])
"""A row's hash, and a further number of the row: its row id or its class."""

_RUN_ROWS = 1 << 20
"""Rows of a file: 16 MB, which a worker sorts in memory."""
_RANGE_ROWS = 1 << 21
"""Rows that are compared at a time: 32 MB of all files together."""


@dataclass(frozen=True)
class HashRun:
    """A file of entries sorted by hash."""

    path: str
    rows: int


@dataclass
class RunWriter:
    """Writes entries as sorted runs of about a million. prefix: common prefix of the paths of all runs."""

    prefix: str
    runs: list[HashRun] = field(default_factory=list)
    _pending: list[np.ndarray] = field(default_factory=list)
    _rows: int = 0

    def write(self, hashes: np.ndarray, what: np.ndarray) -> None:
        """Appends uint64 hashes with their int64 numbers."""
        entries = np.empty(len(hashes), ENTRY)
        entries["hash"], entries["what"] = hashes, what
        self._pending.append(entries)
        self._rows += len(entries)
        if self._rows >= _RUN_ROWS:
            self.close()

    def close(self) -> None:
        """Writes the pending entries."""
        if self._rows:
            run = HashRun(f"{self.prefix}-{len(self.runs):05d}.hashes", self._rows)
            fileio.makedirs(run.path.rpartition("/")[0])
            with fileio.open(run.path, "wb") as f:
                f.write(_sorted(np.concatenate(self._pending)).tobytes())
            self.runs.append(run)
        self._pending, self._rows = [], 0


def read_ranges(groups: Sequence[Sequence[HashRun]], range_rows: int = _RANGE_ROWS) -> Iterator[list[np.ndarray]]:
    """Yields, per range of hashes in increasing order, the entries of each group sorted by hash.

    Each hash is in one range only. A range holds about `range_rows` entries of all groups together, because hashes are
    uniformly distributed. Every run is read once from start to end.
    """
    total = sum(run.rows for runs in groups for run in runs)
    ranges = max(1, -(-total // range_rows))
    cursors = [[_Cursor(run, ranges) for run in runs] for runs in groups]
    none = np.empty(0, ENTRY)
    for i in range(ranges):
        limit = (i + 1 << 64) // ranges  # exclusive; the limit of the last range is above every hash
        yield [_sorted(np.concatenate([none, *(cursor.below(limit) for cursor in group)])) for group in cursors]


def _sorted(entries: np.ndarray) -> np.ndarray:
    """Returns entries sorted by hash, stably; NumPy's sort of structured arrays takes ten times as long."""
    return entries[np.argsort(entries["hash"], kind="stable")]


_SPARE, _LEAST_STEP = 8, 64
"""A read takes an eighth more rows than a range holds on average, and 64, so that most ranges take one read."""


class _Cursor:
    """A position in a run. The file is open only while it is read, because there may be thousands of runs."""

    def __init__(self, run: HashRun, ranges: int):
        self._run = run
        self._read = 0
        self._step = run.rows // ranges + run.rows // (_SPARE * ranges) + _LEAST_STEP
        self._ahead = np.empty(0, ENTRY)

    def below(self, limit: int) -> np.ndarray:
        """Returns the entries with hashes below a limit that were not returned before."""
        while self._read < self._run.rows and (not len(self._ahead) or int(self._ahead["hash"][-1]) < limit):
            self._ahead = np.concatenate([self._ahead, self._next()])
        cut = len(self._ahead) if limit >> 64 else int(np.searchsorted(self._ahead["hash"], np.uint64(limit)))
        found, self._ahead = self._ahead[:cut], self._ahead[cut:]
        return found

    def _next(self) -> np.ndarray:
        count = min(self._step, self._run.rows - self._read)
        with fileio.open(self._run.path, "rb") as f:
            f.seek(self._read * ENTRY.itemsize)
            data = f.read(count * ENTRY.itemsize)
        self._read += count
        return np.frombuffer(data, ENTRY)


def count_overlaps(runs: Mapping[str, Sequence[HashRun]]) -> tuple[Overlap, ...]:
    """Returns the overlap of each pair of splits, by the hashes of their rows; train is first.

    A row counts once, however often it occurs in the other split. The probability that two different rows have the same
    hash is about (rows of one split) * (rows of the other) / 2**64.

    Args:
        runs: Split -> runs of (content hash, row id).
    """
    names = sorted(runs, key=lambda name: name != "train")
    pairs = list(combinations(range(len(names)), 2))
    rows = dict.fromkeys(pairs, 0)
    examples: dict[tuple[int, int], tuple[int, int]] = {}
    for entries in read_ranges([runs[name] for name in names]) if pairs else ():
        for pair in pairs:
            first, second = (entries[i] for i in pair)
            positions = np.searchsorted(first["hash"], second["hash"]).clip(max=max(len(first) - 1, 0))
            common = first["hash"][positions] == second["hash"] if len(first) else np.zeros(len(second), dtype=bool)
            rows[pair] += int(common.sum())
            if common.any() and pair not in examples:
                at = int(common.argmax())
                examples[pair] = (int(first["what"][positions[at]]), int(second["what"][at]))
    sizes = [sum(run.rows for run in runs[name]) for name in names]
    return tuple(Overlap(names[a], names[b], rows[a, b], sizes[b], examples.get((a, b))) for a, b in pairs)


def check_overlaps(overlaps: Sequence[Overlap], limit: SplitLeakage, locate: Mapping[int, str]) -> None:
    """Raises UserError if more rows are in two splits than the YAML allows.

    Args:
        locate: Row id of an example -> `file, row n`.
    """
    over = [
        o
        for o in overlaps
        if o.fraction > limit.max_fraction or (limit.max_rows is not None and o.rows > limit.max_rows)
    ]
    if not over:
        return
    allowed = f"{limit.max_fraction:.2%}" + (f" and {limit.max_rows:,} rows" if limit.max_rows is not None else "")
    lines = [f"data.split_leakage allows {allowed} of a split's rows to be in another split, too, but"]
    for o in over:
        lines.append(f"  {o.words}")
        if o.example:
            lines[-1] += f"; for example {locate[o.example[1]]} = {locate[o.example[0]]}"
    lines.append(
        "Split by a key that equal rows share (method: hash with column), or by all columns (hash without column), "
        "remove the repeated rows from the files, or raise data.split_leakage."
    )
    raise UserError("\n".join(lines))
