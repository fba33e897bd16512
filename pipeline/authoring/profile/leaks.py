"""Finds columns that give the label away: by one aspect of their values, by one class each, or as parts of a sum."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, shown
from fullpass.pipeline.authoring.profile.strength import (
    FEWEST_ROWS,
    Strength,
    Target,
    most_groups,
    strength_of,
    strength_of_groups,
)
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule

_TEXTS = ("category", "categories", "text")
_FEWEST_OF_CLASS = 10
"""Rows of a class that is judged: a column that follows fewer may do so by chance."""
_COVERED = 0.9
"""Share of the rows in such classes; else the label is a number, or has too many rare classes."""
_OFTEN = 0.05
"""Share of the commonest value of a number, such as sales of 0, that a column may tell."""
_WRONG = 0.01
"""Share of the rows of a state in which a column that follows from the label is wrong."""
_MOST_CLASSES = 50
"""Classes that are looked for in texts, the longest first."""
_LOOKED_AT = 500
"""Characters of a text in which a class is looked for."""
_SUM_ROWS = 0.3
"""Share of the rows in which a sum must be exact: in others, parts may be missing."""
_EXACT = 0.005
"""Deviations of the label within which a sum is exact: amounts are rounded."""
_UNIT_WEIGHT = 0.02
"""How far the weight of a summand may be from 1 or -1."""
_LEAST_EFFECT = 0.01
"""Deviations of the label that a summand must move it by."""
_MOSTLY_SUM = 0.9
"""Share of all effects that summands of weight 1 or -1 must have."""
_REWEIGHTINGS = 60
"""Steps of the least absolute errors; they converge within some forty."""
_ROWS_OF_SUMS = 5000
"""Rows that are looked at for sums, spread over all."""


def strongest_aspect(column: ColumnProfile, target: Target) -> Strength | None:
    """Returns how well a column predicts the label, as `strength_of`, or by one aspect if that nearly gives it away.

    Aspects are whether it is missing, each of its values (`strength_of` joins rare ones), and a class's text in its
    texts.
    """
    strength = strength_of(column, target)
    for by, groups in _aspects(column, target):
        found = strength_of_groups(groups, replace(target, y=np.where(groups < 0, np.nan, target.y)))
        if found is None or not found.is_suspect:
            continue
        if found.is_leak and by == BY_MISSING:
            return replace(found, by=by)
        if strength is None or (found.value > strength.value and not strength.is_leak):
            strength = replace(found, by=by)
    return strength


BY_MISSING = "by whether it is missing"


def _aspects(column: ColumnProfile, target: Target) -> Iterator[tuple[str, np.ndarray]]:
    """Yields aspects of a column in words, and the group of each row, int64 [rows]; -1 leaves the row out."""
    values = column.values
    if not values.present:
        return
    if values.present < values.rows:
        yield BY_MISSING, (values.codes < 0).astype(np.int64)
    if values.distinct <= most_groups(target) and column.kind != "text":
        return
    if column.kind in _TEXTS:
        yield f"by the value of {target.name} in its text", _groups_by_class(values, target)
    if 2 * values.distinct <= values.present and column.kind != "text":
        repeated = np.where(values.counts > 1, np.arange(1, values.distinct + 1), -1)
        yield "by its values that repeat", np.append(repeated, 0)[values.codes]


def _groups_by_class(values: ValueCounts, target: Target) -> np.ndarray:
    """Returns the group of each row by the first class that its text names, int64 [rows]; 0 where it is missing."""
    named = sorted((t.lower() for t in target.texts if any(c.isalpha() for c in t)), key=len, reverse=True)
    classes = re.compile("|".join(map(re.escape, named[:_MOST_CLASSES])) or "$")
    number: dict[str, int] = {}
    found = [(classes.findall(text[:_LOOKED_AT].lower()) or [""])[0] for text in values.texts]
    of_value = [number.setdefault(one, len(number) + 1) for one in found]
    return np.array([*of_value, 0], dtype=np.int64)[values.codes]


@dataclass(frozen=True)
class Indicator:
    """A column that follows from the label: with one value, or missing, exactly where the label has certain values.

    Attributes:
        is_leak: Whether it must hold the label itself; else it may be known at serving time.
    """

    why: str
    is_leak: bool


class _Labels(NamedTuple):
    """Rows with a label, the class of each, the names of the classes, and whether each has enough rows to be judged."""

    rows: np.ndarray
    codes: np.ndarray
    names: Sequence[str]
    often: np.ndarray


class _Told(NamedTuple):
    """What a column tells: its value, or "missing", and bool [classes], the classes where it has this value."""

    state: str
    where: np.ndarray


@rule("one-hot columns of the label", otherwise={})
def indicators_of_label(columns: Mapping[str, ValueCounts], target: Target) -> dict[str, Indicator]:
    """Returns the columns that follow from a label of several classes, such as its one-hot columns.

    They leak the label if together they tell all values apart, if their names say so, or if a column is missing in all
    rows of some classes and in no others. Another one, such as `milk` for the class mammal, may be known at serving
    time; so may a column that tells where a number has one of its values, such as `closed` for sales of 0.
    """
    labels = _labels(target)
    if labels is None:
        return {}
    found = {name: told for name, values in columns.items() if (told := _told(values, labels)) is not None}
    classes = int(labels.often.sum())
    apart = np.unique([told.where[labels.often] for told in found.values()], axis=1).shape[1] if found else 0
    tell_all = classes > 2 and apart == classes
    with_others = ""
    if tell_all and len(found) > 1:
        others = ", ".join(list(found)[:3]) + (f" and {len(found) - 3} others" if len(found) > 3 else "")
        with_others = f"; {others} tell all values of {target.name}"
    return {
        name: Indicator(_words(told, labels, target) + with_others, tell_all or _is_leak(name, told, labels, target))
        for name, told in found.items()
    }


def _labels(target: Target) -> _Labels | None:
    """Returns the classes; for a number of many values, its commonest value and any other. None if there are none."""
    if target.task == "binary":
        return None
    rows = np.flatnonzero(~np.isnan(target.y))
    values, codes, counts = np.unique(target.y[rows], return_inverse=True, return_counts=True)
    often = counts >= _FEWEST_OF_CLASS
    names = [target.texts[int(v)] if target.texts else f"{v:g}" for v in values.tolist()]
    if often.sum() > 2 and counts[often].sum() >= _COVERED * len(rows):
        return _Labels(rows, codes, names, often)
    if target.task != "regression" or counts.max(initial=0) < max(_FEWEST_OF_CLASS, _OFTEN * len(rows)):
        return None
    commonest = int(counts.argmax())
    both = (codes == commonest).astype(np.int64)
    return _Labels(rows, both, ["another value", names[commonest]], np.array([True, True]))


def _told(values: ValueCounts, labels: _Labels) -> _Told | None:
    """Returns what a column tells by its two values, or by being missing; None if the label does not determine it."""
    of_rows = values.codes[labels.rows]
    states = np.unique(of_rows)
    if len(states) < 2 or (len(states) > 2 and states[0] >= 0):
        return None
    is_first = of_rows == states[0]
    rows = np.bincount(labels.codes, minlength=len(labels.often))
    first = np.bincount(labels.codes, is_first, minlength=len(labels.often))
    where = first > rows / 2
    wrong = np.minimum(first, rows - first).sum()
    if len(set(where[labels.often].tolist())) < 2 or wrong > _WRONG * min(is_first.sum(), (~is_first).sum()):
        return None
    if states[0] < 0:
        return _Told("missing", where)
    state = 0 if _is_shorter(where) else 1
    return _Told(values.texts[states[state]], ~where if state else where)


def _is_shorter(where: np.ndarray) -> bool:
    """Returns whether the chosen classes are fewer than the others; of two classes, whether it is the second."""
    return 2 * where.sum() < len(where) + (not where[0])


def _words(told: _Told, labels: _Labels, target: Target) -> str:
    verb, where = ("is", told.where) if _is_shorter(told.where) else ("is not", ~told.where)
    which = np.flatnonzero(where)
    classes = " or ".join(shown(labels.names[i], 20) for i in which[:3]) + (" or ..." if len(which) > 3 else "")
    return f"{shown(told.state, 20)} exactly where {target.name} {verb} {classes}"


def _is_leak(name: str, told: _Told, labels: _Labels, target: Target) -> bool:
    """Returns whether one column leaks classes: by being missing, or by a name that begins with the label's, as
    target_0 does, or ends with the class that it tells."""
    if target.task == "regression":
        return False
    if told.state == "missing":
        return True
    name = name.lower()
    classes = "|".join(re.escape(labels.names[i].lower()) for i in np.flatnonzero(told.where).tolist())
    is_of_label = re.match(re.escape(target.name.lower()) + r"[\W\d_]", name) is not None
    return is_of_label or re.search(rf"(?:^|[\W_])(?=\D)(?:{classes})$", name) is not None


@rule("sums that leak", otherwise=())
def leaking_summands(columns: Mapping[str, np.ndarray], target: np.ndarray) -> tuple[str, ...]:
    """Returns the columns that leak `target` as a sum or difference of columns, largest effect first.

    A total leaks each part if the other parts are present, and the summands leak their total. The result holds the
    added columns; the subtracted columns reveal nothing alone. The weight of each column must be about 1 or -1, so a
    label that is a weighted sum by nature does not count. A missing value adds nothing.

    Args:
        columns: float64 [rows] each, NaN for missing.
        target: float64 [rows], NaN for missing.
    """
    known = np.flatnonzero(~np.isnan(target))
    known = known[:: -(-len(known) // _ROWS_OF_SUMS) or 1]
    if len(columns) < 2 or len(known) < max(FEWEST_ROWS, 5 * len(columns)):
        return ()
    y = target[known]
    matrix = np.column_stack([*(np.nan_to_num(column[known]) for column in columns.values()), np.ones(len(y))])
    weights = _least_absolute(matrix, y)
    exact = np.abs(y - matrix @ weights) < _EXACT * y.std()
    effects = np.abs(weights[:-1]) * matrix[:, :-1].std(axis=0)
    once = np.abs(np.abs(weights[:-1]) - 1) < _UNIT_WEIGHT
    adding = once & (effects > _LEAST_EFFECT * y.std())
    if exact.mean() < _SUM_ROWS or adding.sum() < 2 or effects[once].sum() < _MOSTLY_SUM * effects.sum():
        return ()
    held = adding & (weights[:-1] > 0)
    if not held[effects.argmax()]:
        return (list(columns)[int(effects.argmax())],)
    names = list(columns)
    return tuple(names[index] for index in np.argsort(-effects, kind="stable") if held[index])


def _least_absolute(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the weights of the linear model with the least sum of absolute errors.

    If a linear model fits most rows exactly, this one does too, whatever the values of the other rows.

    Source: iteratively reweighted least squares; Schlossmacher, An Iterative Technique for Absolute Deviations Curve
    Fitting (1973).
    """
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    scaled, least = matrix / scale, max(1e-4 * float(y.std()), 1e-300)
    of_row = np.ones(len(y))
    for _ in range(_REWEIGHTINGS):
        root = np.sqrt(of_row)
        weights = np.linalg.lstsq(scaled * root[:, None], y * root, rcond=None)[0]
        of_row = 1 / np.maximum(np.abs(y - scaled @ weights), least)
    return weights / scale
