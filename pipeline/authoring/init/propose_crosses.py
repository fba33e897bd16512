"""`fullpass init`: proposes features of several columns: distances, durations, buckets of positions, and crosses.

A cross is proposed if it predicts the label better than its inputs do as separate columns.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.init.propose_features import (
    duration_of,
    feature_of,
    position_buckets,
    position_pairs,
    seconds_between,
)
from fullpass.pipeline.authoring.init.propose_label import evaluated, quoted, unique
from fullpass.pipeline.authoring.init.select_columns import SelectedColumns
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_computed
from fullpass.pipeline.authoring.profile.date_formats import differing_parts
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.profile.strength import (
    Target,
    cross_fitted,
    group_means,
    groups_of,
    halves,
    strength_of,
    within_usual,
)
from fullpass.preprocessing.columns.outputs import date_part_kind
from fullpass.preprocessing.expressions.expression import parse

_GRID = 10
_MOST_VALUES = 1000
_DAY = 86_400
_FEWEST_ROWS = 1000
_LEAST_GAIN, _LEAST_GAIN_OF_FEW, _FEW_ROWS = 0.005, 0.01, 5000
_MOST_INPUTS = 12
_MOST_CROSSES = 3
_SAME = 1.2
_PRIOR_ROWS = 20.0
_ROUNDS = 3


@dataclass(eq=False)
class Combinations:
    """Features and crosses made of several columns, and the derived columns they need."""

    derive: list[YamlLine] = field(default_factory=list)
    features: list[YamlLine] = field(default_factory=list)
    crosses: list[YamlLine] = field(default_factory=list)


def combine_columns(
    profile: SourceProfile, selection: SelectedColumns, target: Target, taken: Sequence[str], *, crosses: bool
) -> Combinations:
    """Returns the features and crosses that combine several columns.

    Args:
        taken: Names of the existing columns and features.
        crosses: Whether to cross columns. Trees find interactions of columns themselves. A cross of many values has
            few rows per value, and trees memorize them.
    """
    combined = Combinations()
    columns = [candidate.column for candidate in selection.features]
    names = list(taken)
    if crosses:
        _add_cells(combined, columns, names)
    _add_distance(combined, profile, columns, target, names)
    _add_duration(combined, columns, target, names)
    if crosses:
        _add_crosses(combined, columns, target, names)
    return combined


def _add_cells(combined: Combinations, columns: Sequence[ColumnProfile], names: list[str]) -> None:
    """Adds a grid cell for each position: a cross of bucketized latitude and longitude."""
    for latitude, longitude in position_pairs(columns):
        grid = []
        for column in (latitude, longitude):
            name = _new(f"{column.name}_bucket", names)
            combined.features.append(position_buckets(name, column, _GRID))
            grid.append(name)
        cell = _new(f"{latitude.name}_cell", names)
        value = {"name": cell, "inputs": grid, "hash_buckets": 2 * _GRID**2}
        combined.crosses.append(YamlLine(cell, value, f"a position is {latitude.name} and {longitude.name} together"))


def _add_distance(
    combined: Combinations, profile: SourceProfile, columns: Sequence[ColumnProfile], target: Target, names: list[str]
) -> None:
    """Adds the distance between two positions, if there are exactly two."""
    pairs = position_pairs(columns)
    if len(pairs) != 2:
        return
    four = [column for pair in pairs for column in pair]
    try:
        formula = f"haversine({', '.join(quoted(column.name) for column in four)})"
    except UserError:
        return
    name = _new("distance_km", names)
    distance = profile_computed(name, evaluated(parse(formula), profile, {c.name: "number" for c in four}))
    strength = strength_of(distance, target)
    if distance.kind == "number" and not (strength and strength.is_leak):
        combined.derive.append(YamlLine(name, formula, "km along the great circle"))
        combined.features.append(feature_of(distance, strength))


def _add_duration(combined: Combinations, columns: Sequence[ColumnProfile], target: Target, names: list[str]) -> None:
    """Adds the time between two dates, if there are exactly two and it does not leak the label."""
    dates = [column for column in columns if column.kind == "date"]
    if len(dates) != 2:
        return
    for start, end in (dates, dates[::-1]):
        seconds = seconds_between(start, end)
        if seconds is not None:
            name = _new("duration", names)
            strength = strength_of(profile_computed(name, seconds.astype(np.float32)), target)
            if not (strength and strength.is_leak):
                line = duration_of(name, start, end, seconds)
                told = f"; {strength.shown} alone" if strength else ""
                combined.features.append(YamlLine(name, line.value, line.why + told))
            return


def _add_crosses(combined: Combinations, columns: Sequence[ColumnProfile], target: Target, names: list[str]) -> None:
    inputs: dict[str, np.ndarray] = {}
    for column in columns:
        inputs |= {name: groups for name, groups in _inputs(column).items() if name == column.name or name not in names}
    for pair in find_pairs(inputs, target):
        buckets = min(max(100, -(-2 * pair.combinations // 100) * 100), 10_000)
        value: dict[str, object] = {"inputs": list(pair.inputs), "hash_buckets": buckets}
        name = "_x_".join(pair.inputs)
        if name in names:
            value = {"name": _new(name, names), **value}
        why = f"{pair.combinations:,} pairs; the cross explains {pair.gain:.1%} of what their separate effects leave"
        combined.crosses.append(YamlLine(name, value, why))


def _inputs(column: ColumnProfile) -> Mapping[str, np.ndarray]:
    """Returns the cross inputs that a column provides: input -> int [rows]."""
    if column.kind in ("category", "boolean") and 2 <= column.values.distinct <= _MOST_VALUES:
        groups = groups_of(column, _MOST_VALUES)
        return {} if groups is None else {column.name: groups}
    if column.kind != "date" or column.dates is None:
        return {}
    when = column.values.per_row(column.dates.moments)
    parts = [part for part in differing_parts(column.dates) if date_part_kind(part, cyclic=False) == "ids"]
    return {f"{column.name}.{part}": _part(when, part) for part in parts}


def _part(when: np.ndarray, part: str) -> np.ndarray:
    """Returns a date part as int [rows], counted from 1; 0 is missing."""
    known = np.nan_to_num(when)
    days = np.floor(known / _DAY).astype(np.int64)
    number = {
        "hour": np.floor(known % _DAY / 3600).astype(np.int64),
        "minute": np.floor(known % 3600 / 60).astype(np.int64),
        "day_of_week": (days + 3) % 7,
        "month": days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12,
        "day": (days.astype("datetime64[D]") - days.astype("datetime64[D]").astype("datetime64[M]")).astype(np.int64),
    }[part]
    return np.where(np.isnan(when), 0, number + 1)


def _new(name: str, names: list[str]) -> str:
    found = unique(name, names)
    names.append(found)
    return found


@dataclass(frozen=True)
class Pair:
    """Two inputs worth crossing.

    Attributes:
        gain: Share of the residual of both separate effects that the cross explains, on rows not used for fitting.
        combinations: Number of distinct pairs of values in the sample.
    """

    inputs: tuple[str, str]
    gain: float
    combinations: int


def find_pairs(groups: Mapping[str, np.ndarray], target: Target) -> tuple[Pair, ...]:
    """Returns up to three pairs worth crossing, best first; none with fewer than 1,000 rows.

    Args:
        groups: Input of a cross -> int [rows], the value of each row. Only the strongest inputs are tried.
        target: The label. For several classes, it is the commonest class against the rest.
    """
    known = ~np.isnan(target.y)
    if known.sum() < _FEWEST_ROWS or target.task == "multilabel":
        return ()
    y = _one_number(target, known)
    inputs = {name: np.unique(column[known], return_inverse=True)[1] for name, column in groups.items()}
    strengths = {name: float(-((y - cross_fitted(column, y)) ** 2).mean()) for name, column in inputs.items()}
    best = sorted(inputs, key=lambda name: -strengths[name])[:_MOST_INPUTS]
    pairs = [_pair((a, b), inputs[a], inputs[b], y) for a, b in itertools.combinations(best, 2)]
    least = _LEAST_GAIN if len(y) >= _FEW_ROWS else _LEAST_GAIN_OF_FEW
    chosen: list[Pair] = []
    for pair in sorted((p for p in pairs if p.gain >= least), key=lambda p: -p.gain):
        if len(chosen) < _MOST_CROSSES and not any(_say_the_same(pair, other, inputs) for other in chosen):
            chosen.append(pair)
    return tuple(chosen)


def _say_the_same(one: Pair, other: Pair, inputs: Mapping[str, np.ndarray]) -> bool:
    """Returns whether two pairs group the rows in nearly the same way, like month and the month of a date."""
    both = np.unique(np.column_stack([inputs[name] for name in {*one.inputs, *other.inputs}]), axis=0)
    return len(both) <= _SAME * max(one.combinations, other.combinations)


def _one_number(target: Target, known: np.ndarray) -> np.ndarray:
    y = target.y[known]
    if target.task == "multiclass":
        classes, counts = np.unique(y, return_counts=True)
        return (y == classes[counts.argmax()]).astype(float)
    return within_usual(y) if target.task == "regression" else y


def _pair(names: tuple[str, str], a: np.ndarray, b: np.ndarray, y: np.ndarray) -> Pair:
    """Returns the gain of a cross: the share of the residual of the additive effects that the cross explains."""
    both = np.unique(a.astype(np.int64) * (int(b.max()) + 1) + b, return_inverse=True)[1]
    left = before = 0.0
    for fitted in halves(len(y)):
        tried = ~fitted
        of_a, of_b, mean = _added(a[fitted], b[fitted], y[fitted], int(a.max()) + 1, int(b.max()) + 1)
        residual = y - mean - of_a[a] - of_b[b]
        together = group_means(both[fitted], residual[fitted], int(both.max()) + 1, _PRIOR_ROWS)
        before += float((residual[tried] ** 2).sum())
        left += float(((residual[tried] - together[both[tried]]) ** 2).sum())
    return Pair(names, 1 - left / before if before > 0 else 0.0, int(both.max()) + 1)


def _added(
    a: np.ndarray, b: np.ndarray, y: np.ndarray, size_a: int, size_b: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns additive effects of the values of a and b, and the mean of y, fitted by backfitting."""
    mean = float(y.mean())
    of_a, of_b = np.zeros(size_a), np.zeros(size_b)
    for _ in range(_ROUNDS):
        of_a = _effect(a, y - mean - of_b[b], size_a)
        of_b = _effect(b, y - mean - of_a[a], size_b)
    return of_a, of_b, mean


def _effect(groups: np.ndarray, rest: np.ndarray, size: int) -> np.ndarray:
    sums = np.bincount(groups, weights=rest, minlength=size)
    return sums / (np.bincount(groups, minlength=size) + _PRIOR_ROWS)
