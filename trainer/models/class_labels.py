"""The classes of a label: their names, their weights in training, and whether there is enough to learn from."""

import logging

import numpy as np
import tensorflow_transform as tft

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.columns.outputs import LABEL_VOCABULARY
from fullpass.preprocessing.features.label import Label
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.loss_config import LossConfig

_LOG = logging.getLogger(__name__)


def class_names(label: Label, tft_output: tft.TFTransformOutput) -> tuple[str, ...]:
    """Returns the class names in id order, from the label or from its values in train; see `Label.names_of_values`.

    Raises:
        UserError: The label's classes are learned, and train has none.
    """
    if label.task == "regression" or label.classes is not None:
        return label.class_names or ()
    names = [token.decode("utf-8", "backslashreplace") for token in tft_output.vocabulary_by_name(LABEL_VOCABULARY)]
    present = tuple(name for name in names if name)
    found = label.names_of_values(present) or present
    if not found:
        raise UserError(f"label.name: no row of train has a value in {label.name!r}.")
    return found


def check_label(label: Label, names: tuple[str, ...], counts: SplitCounts) -> None:
    """Raises UserError if train has too few usable labels, or only one class."""
    # With a weight column, a weight of 0 is more likely intended than the effect of a missing label.
    missing = counts.weightless / counts.rows
    if label.weight is None and missing > label.max_missing:
        raise UserError(
            f"{counts.weightless:,} of {counts.rows:,} train rows ({missing:.1%}) have no usable label in "
            f"{label.name!r}; label.max_missing allows {label.max_missing:.1%}. Repair the column, see "
            f"{_hint(label)}, or raise label.max_missing if these rows may be left out."
        )
    present = [name for name, rows in zip(names, counts.class_rows, strict=True) if rows]
    if label.task in ("binary", "multiclass") and len(present) < 2:
        raise UserError(
            f"all {counts.weighted_rows:,} labelled train rows are of one class, {present[0]!r}: there is nothing to "
            f"learn. See {_hint(label)}, and whether data.split puts every class into train."
        )
    if label.task == "multilabel" and not present:
        raise UserError(f"no train row has any class: there is nothing to learn. See {_hint(label)}.")
    absent = [name for name in names if name not in present]
    if absent:
        _LOG.warning("train has no example of class %s; the model can hardly predict it", ", ".join(absent))


def check_loss(label: Label, loss: LossConfig, split: str, counts: SplitCounts) -> None:
    """Raises UserError if a split has labels that the loss does not support."""
    below = {"any": 0, "0 and above": counts.label_negative, "above 0": counts.label_negative + counts.label_zero}
    bad = below[loss.labels]
    if bad:
        raise UserError(
            f"training.loss: {loss.kind} is for labels {loss.labels}; {bad:,} of {counts.weighted_rows:,} {split} rows "
            f"have other labels in {label.name!r}. Remove these rows, or use another loss: squared, absolute, huber or "
            "quantile."
        )


def class_factors(label: Label, names: tuple[str, ...], counts: SplitCounts) -> np.ndarray:
    """Returns the factor of the training weight per class, float64 [classes]; empty if there is none.

    balanced: n / (classes * rows of the class), so that all classes have the same total weight. A class without a given
    weight keeps 1.

    Example: 90 rows of class 0 and 10 of class 1 give 100 / (2 * 90) = 0.556 and 100 / (2 * 10) = 5.

    Raises:
        UserError: A weight is given for a class that does not exist.
    """
    if label.class_weights is None:
        return np.zeros(0)
    if label.class_weights == "balanced":
        rows = np.maximum(counts.class_rows, 1)
        return np.where(counts.class_rows > 0, counts.class_rows.sum() / (len(names) * rows), 1.0)
    alias = dict(zip(label.class_names or (), names, strict=False))
    given = {alias.get(name, name): weight for name, weight in label.class_weights.items()}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UserError(
            f"label.class_weights: no class {unknown[0]!r}.{did_you_mean(unknown[0], names)} "
            f"Classes: {', '.join(names)}."
        )
    return np.array([given.get(name, 1.0) for name in names])


def _hint(label: Label) -> str:
    return {
        "binary": "label.positive (the value that counts as 1)",
        "multiclass": "label.classes (the values that are known)",
        "multilabel": "label.classes and label.separator",
        "regression": "the column's numbers",
    }[label.task]
