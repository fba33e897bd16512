"""Counts the rows, labels and weights of a split, and refuses a split that cannot be trained on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.records.blocks import Block


@dataclass(frozen=True)
class SplitCounts:
    """The counts of one pass over a split. Rows of weight 0 count in `rows` and `weightless` only.

    Attributes:
        weightless: The rows of weight 0; without a weight column these are the rows without a usable label.
        class_rows: The rows per class, int64 [classes]; empty for regression.
        class_weight: The weight per class, float64 [classes]; empty for regression.
        label_sum: The sum of the weighted labels, for regression.
        label_squares: The sum of the weighted squared labels, for regression.
        label_negative: The rows with a label below 0, for regression.
        label_zero: The rows with a label of 0, for regression.
        not_finite: The rows with a NaN or an infinity, by transformed feature or label.
        widths: The maximum number of values per row, by ragged feature.
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
    label_negative: int = 0
    label_zero: int = 0

    @property
    def weighted_rows(self) -> int:
        """The number of rows with a weight above 0, which are used in training and metrics."""
        return self.rows - self.weightless

    def to_json(self) -> dict[str, Any]:
        """Returns the counts as JSON-compatible data for `from_json`."""
        arrays = {"class_rows": self.class_rows.tolist(), "class_weight": self.class_weight.tolist()}
        return {**vars(self), **arrays, "not_finite": dict(self.not_finite), "widths": dict(self.widths)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "SplitCounts":
        """Restores counts from the data of `to_json`."""
        rows, weight = np.array(content["class_rows"], np.int64), np.array(content["class_weight"], np.float64)
        return cls(**{**content, "class_rows": rows, "class_weight": weight})

    @property
    def label_mean(self) -> float:
        """The weighted mean of the labels of a regression."""
        return self.label_sum / self.weight

    @property
    def label_deviation(self) -> float:
        """The weighted standard deviation of the labels of a regression."""
        return float(np.sqrt(max(0.0, self.label_squares / self.weight - self.label_mean**2)))

    @property
    def error_unit(self) -> float:
        """The unit of the errors of a model: the deviation of the labels, of equal ones their size; 1 for classes."""
        return self.label_deviation or abs(self.label_mean) or 1.0


SUMMED = tuple(each.name for each in fields(SplitCounts) if each.name not in ("not_finite", "widths"))
"""The counts of which those of two parts add up."""


def check_rows(name: str, counts: SplitCounts) -> None:
    """Raises UserError for a split without usable rows, or with values that are not finite."""
    if counts.rows == 0:
        raise UserError(f"split {name!r} is empty. Check data.split, and whether the source has rows.")
    if counts.weighted_rows == 0:
        raise UserError(
            f"all {counts.rows:,} rows of split {name!r} have weight 0: their label is missing or not a known class, "
            "or the weight column is 0. See label.name, label.positive, label.classes and label.weight."
        )
    if counts.not_finite:
        found = ", ".join(f"{feature} in {rows:,} rows" for feature, rows in sorted(counts.not_finite.items()))
        raise UserError(
            f"split {name!r} contains NaN or infinity after the transforms: {found}. A model cannot learn from these; "
            "check how the function or transform that computes them handles missing and extreme values."
        )


def no_rows(classes: int) -> SplitCounts:
    """Returns the counts of no rows."""
    return SplitCounts(0, 0, np.zeros(classes, np.int64), np.zeros(classes), 0.0, 0.0, 0.0, {})


def count_rows(rows: int, label: np.ndarray, weight: np.ndarray, task: Task, classes: int) -> SplitCounts:
    """Returns the counts of rows, without `not_finite` and `widths`.

    Args:
        rows: The number of rows, those of weight 0 included.
        label: The labels of the rows of a weight above 0.
        weight: The weights of these rows, float32 [rows].
        classes: The number of classes; 0 for regression.
    """
    weight = weight.astype(np.float64)
    class_rows, class_weight = _per_class(label, weight, task, classes)
    numbers = label.astype(np.float64) if task == "regression" else np.zeros_like(weight)
    return SplitCounts(
        rows=rows,
        weightless=rows - len(weight),
        class_rows=class_rows,
        class_weight=class_weight,
        weight=float(weight.sum()),
        label_sum=float(weight @ numbers),
        label_squares=float(weight @ numbers**2),
        not_finite={},
        label_negative=int((numbers < 0).sum()),
        label_zero=int((numbers == 0).sum()) if task == "regression" else 0,
    )


def _per_class(label: np.ndarray, weight: np.ndarray, task: Task, classes: int) -> tuple[np.ndarray, np.ndarray]:
    if task == "regression":
        return np.zeros(0, np.int64), np.zeros(0)
    if task == "multilabel":
        return (label > 0).sum(axis=0), weight @ label
    ids = label.astype(np.int64)
    return np.bincount(ids, minlength=classes), np.bincount(ids, weight, minlength=classes)


def rows_not_finite(block: Block) -> dict[str, int]:
    """Returns the number of rows (of a ragged feature: values) with NaN or infinity, by feature that has any."""
    found = {}
    for name, value in block.items():
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        if flat.dtype.is_floating:
            bad = ~np.isfinite(flat.numpy())
            if bad.any():
                found[name] = int(bad.reshape(len(bad), -1).any(axis=1).sum())
    return found


def add_counts(one: SplitCounts, other: SplitCounts) -> SplitCounts:
    """Returns the sum of two counts."""
    return SplitCounts(
        **{name: getattr(one, name) + getattr(other, name) for name in SUMMED},
        not_finite=dict(Counter(one.not_finite) + Counter(other.not_finite)),
        widths={name: max(one.widths.get(name, 0), other.widths.get(name, 0)) for name in {*one.widths, *other.widths}},
    )
