"""A sample of rows that depends on the row ids alone, not on the order of files, workers or batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

MOST_ROWS = 2000
"""Rows of a sample: the error of a share in it is about one percent."""
_BYTES = 64 << 20
"""Bytes of its records, which a worker holds in memory per split."""


def mixed(row_ids: np.ndarray) -> np.ndarray:
    """Returns a hash of each row id, uint64 [rows]: files and spans leave patterns in the ids themselves."""
    hashed = row_ids.astype(np.uint64)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finalizer of SplitMix64
            hashed = (hashed ^ (hashed >> np.uint64(shift))) * np.uint64(factor)
    return hashed ^ (hashed >> np.uint64(31))


@dataclass(frozen=True)
class RowSample:
    """The rows with the smallest hashes, of all rows added so far: up to 2,000 rows and 64 MiB, in order of the hash.

    Samples of disjoint parts merge to the sample of all rows. So every prefix is a sample too.

    Attributes:
        hashes: uint64 [rows], ascending.
    """

    hashes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    records: tuple[bytes, ...] = ()

    def with_rows(self, row_ids: np.ndarray, records: Sequence[bytes]) -> "RowSample":
        """Returns the sample after some rows; int64 [rows], and their records."""
        hashes = mixed(row_ids)
        full = len(self.records) == MOST_ROWS
        rows = np.flatnonzero(hashes < self.hashes[-1]) if full else np.arange(len(hashes))
        return RowSample.merged([self, RowSample(hashes[rows], tuple(records[row] for row in rows.tolist()))])

    @staticmethod
    def merged(samples: "Iterable[RowSample]") -> "RowSample":
        """Returns the sample of the rows of several samples."""
        samples = list(samples)
        hashes = np.concatenate([np.zeros(0, np.uint64), *(sample.hashes for sample in samples)])
        records = [record for sample in samples for record in sample.records]
        order = np.argsort(hashes, kind="stable")[:MOST_ROWS]
        sizes = np.cumsum([len(records[row]) for row in order])
        kept = order[: max(1, np.searchsorted(sizes, _BYTES, side="right"))]
        return RowSample(hashes[kept], tuple(records[row] for row in kept))
