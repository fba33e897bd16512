"""Passes the rows of splits to LightGBM batch by batch, so that the numbers of all rows are never in memory."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import lightgbm
import numpy as np

from fullpass.base.errors import UserError
from fullpass.trainer.input.epochs import Batch, BatchOrder
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.memory import available_memory

_LOG = logging.getLogger(__name__)
_BATCH_ROWS = 8192
"""Rows of a batch at most, in which rows are read from the split."""
_BATCH_BYTES = 32 << 20
"""The most bytes of a batch with its padding."""
_SAMPLE_ROWS = 200_000
"""Rows that bins are found in, as in LightGBM (bin_construct_sample_cnt)."""
_SAMPLE_BYTES = 256 << 20
"""The most bytes of these rows, as a split stores them."""
_ROW_BYTES = 40
"""Bytes of a row in addition to its bins: label, weight, gradients and scores of one column of the output."""

Columns = Callable[[Batch, np.ndarray], np.ndarray]
"""A batch and the numbers of its rows in the order of their split, int64 -> its columns, float32 [rows, columns]."""
Targets = Callable[[np.ndarray], np.ndarray]
"""Labels in the form of batches -> targets that trees are fitted to, float [rows]."""


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """The rows of one or more splits in bins.

    Attributes:
        dataset: LightGBM's dataset, with targets, and with weights whose mean is 1.
        label: Labels in the form of batches, [rows].
        weight: float32 [rows].
        seen: Whether each of the first ids, those of missing and unknown values, is among the rows, by column of ids.
    """

    dataset: lightgbm.Dataset
    label: np.ndarray
    weight: np.ndarray
    seen: Mapping[int, np.ndarray]


def check_memory(rows: int, columns: int, outputs: int) -> None:
    """Logs how much memory the bins of a train split take, and raises UserError if less is available."""
    wanted = rows * (columns + _ROW_BYTES * outputs)
    free = available_memory()
    _LOG.info("trees: %s rows of %s columns take about %.1f MB in bins", f"{rows:,}", columns, wanted / 1e6)
    if wanted > free:
        raise UserError(
            f"model: trees keep one byte per number in memory. {rows:,} train rows of {columns} columns take about "
            f"{wanted / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free. Remove features or rows, give the Trainer more "
            "memory, or use model: {kind: wide_deep}, which reads its rows from disk."
        )


def batch_rows(split: Split) -> int:
    """Returns how many rows of a split are read at once: 8,192, but fewer of long texts, which a batch pads."""
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // split.padded_row_bytes))


def find_bins(
    split: Split, columns: Columns, unseen: Mapping[int, int], settings: Mapping[str, object]
) -> lightgbm.Dataset:
    """Returns a dataset that defines the bins, from up to 200,000 rows of the train split."""
    rows = max(1, min(_SAMPLE_ROWS, _SAMPLE_BYTES // max(1, split.row_bytes), split.counts.weighted_rows))
    size = batch_rows(split)
    numbers = iter(np.split(split.sampled_numbers(rows), range(size, rows, size)))
    found = np.concatenate([columns(batch, next(numbers)) for batch in split.sampled_batches(rows, size)])
    labels = np.zeros(len(found))
    return lightgbm.Dataset(found, labels, categorical_feature=sorted(unseen), params=dict(settings)).construct()


def bin_rows(
    splits: Sequence[tuple[Split, Columns]],
    targets: Targets,
    bins: lightgbm.Dataset,
    *,
    unseen: Mapping[int, int] = MappingProxyType({}),
    factors: Sequence[float] = (),
) -> BinnedRows:
    """Reads splits once, one after the other and in the order of their files, into bins.

    Args:
        unseen: The number of first ids whose presence is recorded, by column of ids.
        factors: The factor of the weight per class; empty for none.
    """
    readers = [_Reader(split, columns, unseen, factors) for split, columns in splits]
    rows = sum(len(reader) for reader in readers)
    # All parameters of growth: a dataset without num_threads, or a part of it, would set LightGBM back to all cores.
    dataset = lightgbm.Dataset(readers, np.zeros(rows), reference=bins, params=bins.params).construct()
    label = np.concatenate([part for reader in readers for part in reader.labels])
    weight = np.concatenate([part for reader in readers for part in reader.weights])
    dataset.set_label(targets(label))
    # Leaves need a minimum weight; weights with mean 1 keep their unit from changing how trees grow.
    dataset.set_weight(weight / weight.mean())
    seen = {column: np.any([reader.seen[column] for reader in readers], axis=0) for column in unseen}
    return BinnedRows(dataset, label, weight, seen)


class _Reader(lightgbm.Sequence):
    """The rows of a split from the first to the last, once; keeps labels and weights."""

    def __init__(self, split: Split, columns: Columns, unseen: Mapping[int, int], factors: Sequence[float]):
        self._rows, self._columns = split.counts.weighted_rows, columns
        self._read = 0
        self.batch_size = batch_rows(split)
        self._batches = iter(split.batches(BatchOrder(batch_size=self.batch_size), tuple(factors)))
        self.seen = {column: np.zeros(count, bool) for column, count in unseen.items()}
        self.labels: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> np.ndarray:  # type: ignore[override]
        """Returns the columns of the next rows; LightGBM requests all rows in their order."""
        batch = next(self._batches)
        self.labels.append(batch[1].numpy())
        self.weights.append(batch[2].numpy())
        found = self._columns(batch, np.arange(self._read, self._read + len(batch[2])))
        self._read += len(found)
        for column, seen in self.seen.items():
            ids = found[:, column].astype(np.int64)
            seen[ids[ids < len(seen)]] = True
        return found
