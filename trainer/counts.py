"""What one pass over a split counts, and what it refuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from preprocessing.errors import UserError
from preprocessing.label import Task
from trainer.blocks import Block


@dataclass(frozen=True)
class Counts:
    """What one pass over a split found. Rows of weight 0 count in `rows` and `weightless` only.

    Attributes:
        rows: all rows.
        weightless: rows of weight 0; without a weight column these are the rows without a usable label.
        class_rows: int64 [classes], rows per class; empty for regression.
        class_weight: float64 [classes], their weight; empty for regression.
        weight: total weight.
        label_sum: of the weighted labels, for regression.
        label_squares: of the weighted squared labels, for regression.
        not_finite: transformed feature (or label) -> rows with a NaN or an infinity in it.
        widths: feature of any number of values -> most that a row has.
        damaged: records that could not be read, and were left out (`input.bad_records`); in no other count.
    """

    rows: int
    weightless: int
    class_rows: np.ndarray
    class_weight: np.ndarray
    weight: float
    label_sum: float
    label_squares: float
    not_finite: Mapping[str, int]
    widths: Mapping[str, int] = field(default_factory=dict)
    damaged: int = 0

    @property
    def used(self) -> int:
        """Rows that take part in training or metrics."""
        return self.rows - self.weightless

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` takes."""
        arrays = {"class_rows": self.class_rows.tolist(), "class_weight": self.class_weight.tolist()}
        return {**vars(self), **arrays, "not_finite": dict(self.not_finite), "widths": dict(self.widths)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Counts":
        """Returns the counts that `to_json` gave."""
        rows, weight = np.array(content["class_rows"], np.int64), np.array(content["class_weight"], np.float64)
        return cls(**{**content, "class_rows": rows, "class_weight": weight})

    @property
    def label_mean(self) -> float:
        """Weighted mean of the labels of a regression."""
        return self.label_sum / self.weight

    @property
    def label_deviation(self) -> float:
        """Weighted standard deviation of the labels of a regression."""
        return float(np.sqrt(max(0.0, self.label_squares / self.weight - self.label_mean**2)))


def check_rows(name: str, counts: Counts) -> None:
    """Raises UserError for a split that nothing can be learned or measured on."""
    if counts.rows == 0:
        raise UserError(f"split {name!r} is empty. Give it rows: see data.split, and whether the source has any.")
    if counts.used == 0:
        raise UserError(
            f"all {counts.rows:,} rows of split {name!r} weigh 0: their label is missing or no known class, or the "
            "weight column is 0. See label.name, label.positive, label.classes and label.weight."
        )
    if counts.not_finite:
        found = ", ".join(f"{feature} in {rows:,} rows" for feature, rows in sorted(counts.not_finite.items()))
        raise UserError(
            f"split {name!r} holds NaN or infinity after the transforms: {found}. A model cannot learn from these; "
            "see what the function or transform that makes them does with missing and extreme values."
        )


def no_rows(classes: int) -> Counts:
    """Returns the counts of nothing."""
    return Counts(0, 0, np.zeros(classes, np.int64), np.zeros(classes), 0.0, 0.0, 0.0, {})


def count_rows(rows: int, label: np.ndarray, weight: np.ndarray, task: Task, classes: int) -> Counts:
    """Returns what rows hold, but for numbers that are not finite, and widths.

    Args:
        rows: number of them, those of weight 0 included.
        label: of the others.
        weight: of the others, float32 [rows].
        task: of the label.
        classes: number of classes; 0 for regression.
    """
    weight = weight.astype(np.float64)
    class_rows, class_weight = _per_class(label, weight, task, classes)
    numbers = label.astype(np.float64) if task == "regression" else np.zeros_like(weight)
    return Counts(
        rows=rows,
        weightless=rows - len(weight),
        class_rows=class_rows,
        class_weight=class_weight,
        weight=float(weight.sum()),
        label_sum=float(weight @ numbers),
        label_squares=float(weight @ numbers**2),
        not_finite={},
    )


def _per_class(label: np.ndarray, weight: np.ndarray, task: Task, classes: int) -> tuple[np.ndarray, np.ndarray]:
    if task == "regression":
        return np.zeros(0, np.int64), np.zeros(0)
    if task == "multilabel":
        return (label > 0).sum(axis=0), weight @ label
    ids = label.astype(np.int64)
    return np.bincount(ids, minlength=classes), np.bincount(ids, weight, minlength=classes)


def rows_not_finite(block: Block) -> dict[str, int]:
    """Returns feature -> rows (of a ragged feature: values) with NaN or infinity, of features that have any."""
    found = {}
    for name, value in block.items():
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        if flat.dtype.is_floating:
            bad = ~np.isfinite(flat.numpy())
            if bad.any():
                found[name] = int(bad.reshape(len(bad), -1).any(axis=1).sum())
    return found


def add_counts(one: Counts, other: Counts) -> Counts:
    """Returns the counts of both."""
    return Counts(
        rows=one.rows + other.rows,
        weightless=one.weightless + other.weightless,
        class_rows=one.class_rows + other.class_rows,
        class_weight=one.class_weight + other.class_weight,
        weight=one.weight + other.weight,
        label_sum=one.label_sum + other.label_sum,
        label_squares=one.label_squares + other.label_squares,
        not_finite={
            name: one.not_finite.get(name, 0) + other.not_finite.get(name, 0)
            for name in {*one.not_finite, *other.not_finite}
        },
        widths={name: max(one.widths.get(name, 0), other.widths.get(name, 0)) for name in {*one.widths, *other.widths}},
        damaged=one.damaged + other.damaged,
    )
