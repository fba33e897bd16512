"""Infers the label column, its task, and its value in every row."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fullpass.base.errors import UsageError
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, shown, words_of
from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.features.label import Task, binary_class, classes_in_cell

_NAMES = frozenset("label target class y outcome response".split())
_LIKELY_WORDS = frozenset(
    "survived churn churned default fraud spam clicked click converted conversion purchased bought price income salary "
    "diagnosis species quality rating score sentiment tip tips tipper delay delayed returned cancelled canceled won "
    "win risk approved revenue sales demand".split()
)
_FEW_CLASSES = 20
"""Whole numbers that may be classes."""
_MOST_CLASSES = 1000
"""Classes of a label; more are ids."""
_TAKEN = 3
"""Points from which on a column is taken as the label."""
_AHEAD = 2
"""Points by which it must be ahead of all others."""
_NO_LABEL = {
    "date": "a date",
    "text": "free text",
    "id": "a different value in nearly every row",
    "constant": "the same value in every row",
    "empty": "no value in any row",
    "image_path": "paths of images",
    "vector": "vectors",
    "list": "lists",
    "image": "images",
    "unreadable": "values that cannot be read",
}


@dataclass(frozen=True)
class LabelGuess:
    """The inferred section `label`, as written in YAML, and the reason in a few words."""

    settings: Mapping[str, object]
    why: str

    @property
    def task(self) -> Task:
        """The task."""
        return self.settings["task"]  # type: ignore[return-value]


def most_likely_label(columns: Sequence[ColumnProfile]) -> tuple[str, str]:
    """Returns the most likely label column and the reason, from names, positions and kinds.

    Raises:
        UserError: No column is clearly the most likely; the message lists the candidates.
    """
    points = {column.name: _points(column, index, columns) for index, column in enumerate(columns)}
    ranked = sorted((c for c in columns if points[c.name] >= 0), key=lambda c: -points[c.name])
    if len(ranked) == 1:
        return ranked[0].name, "the only column that can be a label"
    if ranked and points[ranked[0].name] >= _TAKEN:
        ahead = points[ranked[0].name] - (points[ranked[1].name] if len(ranked) > 1 else 0)
        if ahead >= _AHEAD:
            by_name = words_of(ranked[0].name) & (_NAMES | _LIKELY_WORDS)
            place = f"taken as the {'last' if ranked[0] is columns[-1] else 'first'} column"
            return ranked[0].name, f"{'chosen by its name' if by_name else place}; --label chooses another"
    raise UsageError(_which(ranked[:6], columns))


def label_section(column: ColumnProfile, task: Task | None) -> LabelGuess:
    """Returns the section `label` for a column; without the task that a user requests, it follows from the values.

    Raises:
        UserError: The column cannot be a label, or not a label of this task.
    """
    if column.kind in _NO_LABEL and not (task == "regression" and column.numbers is not None):
        raise UsageError(f"label {column.name!r} holds {_NO_LABEL[column.kind]}. Choose another with --label.")
    if column.values.distinct < 2:
        raise UsageError(f"label {column.name!r} holds one value only; there is nothing to learn. Choose another.")
    chosen = task or _task_of(column)
    settings, why = _BY_TASK[chosen](column)
    missing = column.values.missing_share
    if missing >= 0.0005:
        why += f"; {missing:.1%} missing: these rows are left out"
    if missing > 0.04:
        settings["max_missing"] = min(1.0, float(np.ceil(missing * 120) / 100))
    return LabelGuess({"name": column.name, "task": chosen, **settings}, why)


def label_values(column: ColumnProfile, label: LabelGuess) -> Target:
    """Returns the label of every row, as the run would read it."""
    read_by = {name: label.settings.get(name) for name in ("positive", "classes", "separator")}
    y = label_rows(column.values, label.task, **read_by)  # type: ignore[arg-type]
    return Target(label.task, y, column.name, () if label.task == "regression" else column.values.texts)


def label_rows(
    values: ValueCounts,
    task: Task,
    positive: str | float | None = None,
    classes: Sequence[str] | None = None,
    separator: str | None = None,
) -> np.ndarray:
    """Returns the label of each row, float64 [rows], as in `Target`; NaN if it is missing or cannot be read.

    Args:
        classes: `classes` of the section `label`; None accepts all without a line break.
        separator: `separator` of the section `label`, of a multilabel task.
    """
    if task == "regression":
        return values.row_numbers
    if task == "binary":
        return values.per_row(binary_values(values.texts, positive, classes))
    cells = [classes_in_cell(text, separator) if task == "multilabel" else (text,) for text in values.texts]
    usable = [not cell or any(_is_line(one) if classes is None else one in classes for one in cell) for cell in cells]
    numbers = [float(i) if one else np.nan for i, one in enumerate(usable)]
    return values.per_row(np.array(numbers, dtype=np.float64))


def _is_line(text: str) -> bool:
    """Returns whether a class can be learned: the file of the learned classes has one per line."""
    return "\n" not in text and "\r" not in text


def binary_values(
    texts: Sequence[str], positive: str | float | None, classes: Sequence[str] | None = None
) -> np.ndarray:
    """Returns 1, 0 or NaN (no label) for each value of a binary label, float64 [texts].

    Without `positive` and `classes` of the section `label`, words for true and false are read.
    """
    if classes is not None:
        return np.array([float(classes.index(text)) if text in classes else np.nan for text in texts])
    found = [binary_class(text, positive) for text in texts]
    return np.array([np.nan if one is None else one for one in found], dtype=np.float64)


def _points(column: ColumnProfile, index: int, columns: Sequence[ColumnProfile]) -> int:
    """Returns a score of how likely a column is the label; -1 if it cannot be the label."""
    values = column.values
    if column.kind in _NO_LABEL or values.missing_share > 0.5:
        return -1
    words = words_of(column.name)
    last, lone = index == len(columns) - 1, len(words) == 1
    named = bool(words & _NAMES) and lone
    points = 8 if named else 3 if words & _NAMES else 2 if words & _LIKELY_WORDS else 0
    points += 2 if last else 1 if index == 0 and len(columns) < 4 else 0
    points += 2 if last and _is_unlike(column, columns[:-1]) else 0
    return points + (1 if values.distinct == 2 or column.kind == "boolean" else 0)


@rule("the only column like a label", otherwise=False)
def _is_unlike(column: ColumnProfile, others: Sequence[ColumnProfile]) -> bool:
    """Returns whether only this column can hold classes: the only text, or the only column of few whole numbers."""
    if column.kind == "category" and column.numbers is None:
        return all(other.numbers is not None or other.kind in _NO_LABEL for other in others)
    few = 2 <= column.values.distinct <= _FEW_CLASSES and column.numbers is not None and column.numbers.whole
    return few and all(other.kind in _NO_LABEL or other.values.distinct > _FEW_CLASSES for other in others)


def _which(likely: Sequence[ColumnProfile], columns: Sequence[ColumnProfile]) -> str:
    rows = [f"  --label {shlex.quote(c.name)}  ({_task_of(c)}, {_values(c)})" for c in likely]
    named = ", ".join(c.name for c in columns[:30]) + (" ..." if len(columns) > 30 else "")
    listed = "Likely ones:\n" + "\n".join(rows) + "\n" if rows else ""
    return f"which column is the label? No column stands out; name one with --label. {listed}Columns: {named}."


def _values(column: ColumnProfile) -> str:
    texts = column.values.texts
    if column.numbers is not None and len(texts) > _FEW_CLASSES:
        return f"numbers from {column.numbers.low:g} to {column.numbers.high:g}"
    return f"{len(texts)} values: " + ", ".join(shown(t, 16) for t in texts[:3]) + (" ..." if len(texts) > 3 else "")


def _task_of(column: ColumnProfile) -> Task:
    if column.kind == "categories":
        return "multilabel"
    if column.kind == "boolean" or column.values.distinct == 2:
        return "binary"
    if column.numbers is None:
        return "multiclass"
    few = column.values.distinct <= (_FEW_CLASSES if column.kind == "category" else _FEW_CLASSES // 2)
    return "multiclass" if column.numbers.whole and few else "regression"


def _binary(column: ColumnProfile) -> tuple[dict[str, object], str]:
    values = column.values
    if values.distinct != 2 and column.kind != "boolean":
        name = column.name if column.name.isidentifier() else f"`{column.name}`"
        raise UsageError(
            f"label {column.name!r}: task binary takes two values. Received: {_values(column)}. "
            f'Give a condition instead, such as --label "{name} > 0".'
        )
    if column.kind == "boolean":
        return _truth(values)
    if column.numbers is not None:
        larger = int(np.argmax(values.numbers))
        share = values.counts[larger] / values.present
        number = float(values.numbers[larger])
        return {"positive": int(number) if number == int(number) else number}, f"the larger of two numbers: {share:.1%}"
    return {"classes": list(values.texts)}, f"the rarer of two values: {values.counts[1] / values.present:.1%}"


def _truth(values: ValueCounts) -> tuple[dict[str, object], str]:
    """Returns the settings of a boolean label: the names of its classes, if it has two values that are no numbers."""
    is_true = binary_values(values.texts, None)
    why = f"true in {values.share(is_true == 1):.1%}"
    if values.distinct != 2 or not np.isnan(values.numbers).all():
        return {}, why
    false, true = (values.texts[index] for index in np.argsort(is_true))
    return {"classes": [false, true]}, f"{true} in {values.share(is_true == 1):.1%}"


def _multiclass(column: ColumnProfile) -> tuple[dict[str, object], str]:
    values = column.values
    if values.distinct > max(2, min(_MOST_CLASSES, values.present // 2)):
        raise UsageError(
            f"label {column.name!r}: {values.distinct:,} values in {values.present:,} rows are too many classes. "
            "Choose another label, or --task regression for numbers."
        )
    share = values.counts[0] / values.present
    order = "; --task regression if their order matters" if column.numbers is not None else ""
    settings: dict[str, object] = {"classes": list(values.texts)} if not all(map(_is_line, values.texts)) else {}
    return settings, f"{values.distinct} classes, the commonest {shown(values.texts[0])} in {share:.1%} of rows{order}"


def _multilabel(column: ColumnProfile) -> tuple[dict[str, object], str]:
    if column.separator is None:
        raise UsageError(f"label {column.name!r}: no separator splits its cells into classes, as multilabel needs.")
    return {"separator": column.separator}, f"several classes per cell, split by {column.separator}"


def _regression(column: ColumnProfile) -> tuple[dict[str, object], str]:
    numbers = column.numbers
    if numbers is None:
        raise UsageError(f"label {column.name!r}: task regression takes numbers. Received: {_values(column)}.")
    low, high = numbers.usual
    return {}, f"numbers, median {numbers.median:g}, 998 of 1,000 from {low:g} to {high:g}"


_BY_TASK = {"binary": _binary, "multiclass": _multiclass, "multilabel": _multilabel, "regression": _regression}
