"""`fullpass init`: which columns become features, alone and combined, and why the others do not."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.init.propose_features import feature_of, is_usable
from fullpass.pipeline.authoring.init.propose_label import ChosenLabel
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile import leaks
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_computed, shown, words_of
from fullpass.pipeline.authoring.profile.effects import has_trend, is_better_by_value
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.profile.strength import Strength, groups_for_pairs, strength_of_pair
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.config import ColumnType
from fullpass.preprocessing.values.written_values import read_written

_MOST_SUMS = 10
"""Sums that leak one label; a table of parts and totals has a few."""
_FEWEST_CODES = 3
"""Values of codes; the effects of two are a line."""
_OF_VALUES = ("category", "boolean")
"""Kinds of which only the equality of values counts."""
_FEWEST_OTHERS = 20
"""Rows without the commonest value, of which chance does not make two categories one to one."""
_MOST_CODES = 100
"""Values of codes; of more, few rows each are left."""
_PREDICTION = frozenset("prediction predictions predicted pred preds yhat forecast forecasted".split())
_WHY_NOT = {
    "id": "an id: {why}",
    "image_path": "{why}, which do not exist or are in no supported format; see docs/images.md",
}
_COULD_BE = {"id": {"type": "category", "hash": {"buckets": 1000}}, "constant": "category", "empty": "category"}

BY_VALUE = "whole numbers; each value has a separate effect, by measurement"


@dataclass(frozen=True, eq=False)
class FeatureCandidate:
    """A column that may be a feature.

    Attributes:
        doubt: Why it may be unknown at serving time, in words; empty if there is no doubt.
    """

    column: ColumnProfile
    strength: Strength | None
    doubt: str = ""

    @property
    def has_trend(self) -> bool:
        """Whether it is a date whose trend the label follows."""
        return self.column.dates is not None and self.column.dates.has_trend

    @property
    def lines(self) -> list[YamlLine]:
        """The features: one, or a number and a category if the label follows both the order and the single values."""
        line = feature_of(self.column, self.strength)
        if self.column.why != BY_VALUE:
            return [line]
        value = line.value if isinstance(line.value, dict) else {"type": line.value}
        by_value = replace(line, name=f"{line.name}_value", value={**value, "column": line.name})
        return [feature_of(replace(self.column, kind="number"), self.strength), by_value]


@dataclass(eq=False)
class SelectedColumns:
    """The selected and the omitted columns."""

    features: list[FeatureCandidate] = field(default_factory=list)
    left_out: list[YamlLine] = field(default_factory=list)
    types: dict[str, ColumnType] = field(default_factory=dict)

    def omit(self, omitted: "Omitted") -> None:
        """Moves columns from the features to the omitted columns, each with its reason."""
        for candidate, why in tuple(omitted):
            self.leave_out(candidate, why)

    def leave_out(self, candidate: FeatureCandidate, why: str) -> None:
        """Moves a column from the features to the omitted columns, as a comment that the user can activate."""
        self.features.remove(candidate)
        line = feature_of(candidate.column, None)
        self.left_out.append(YamlLine(line.name, line.value, why))


Omitted = Iterable[tuple[FeatureCandidate, str]]
"""Columns to omit, each with its reason."""


def select_columns(profile: SourceProfile, chosen: ChosenLabel) -> SelectedColumns:
    """Returns the columns that become features.

    Omitted are useless columns (ids, constants), columns that hold the label under another name, and duplicates.

    Raises:
        UserError: No column is left.
    """
    selection = SelectedColumns(
        left_out=[YamlLine(shown(name) or "a column", None, why) for name, why in profile.unusable]
    )
    for column in profile.columns:
        if column.name != chosen.column.name:
            _consider(column, profile, chosen, selection)
    for omitted in (_predictions, _unknown, _read_by_label):
        selection.omit(omitted(chosen, selection))
    selection.types = _types_for_label(chosen, selection)
    _leave_out_sums(profile, chosen, selection)
    for omitted in (_indicators, _leak_of_pair, _leaks, _repetitions):
        selection.omit(omitted(chosen, selection))
    selection.features = [_as_measured(candidate, chosen) for candidate in selection.features]
    if not selection.features:
        reasons = "\n".join(f"  {line.name}: {line.why}" for line in selection.left_out)
        raise UserError(f"no column is left to learn {chosen.column.name} from:\n{reasons}")
    return selection


def _consider(column: ColumnProfile, profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns) -> None:
    if column.kind == "written_number":
        if column.name not in chosen.reads:
            _read_number(column, chosen, selection)
    elif not is_usable(column):
        why = _WHY_NOT.get(column.kind, "{why}").format(why=column.why)
        selection.left_out.append(YamlLine(column.name, _COULD_BE.get(column.kind), why))
    else:
        selection.features.append(FeatureCandidate(column, leaks.strongest_aspect(column, chosen.target)))


def _as_measured(candidate: FeatureCandidate, chosen: ChosenLabel) -> FeatureCandidate:
    """Returns codes as categories, chosen by a quick measurement, and dates with their trend; with its doubt."""
    column = candidate.column
    if column.kind == "number":
        column = _as_category(column, chosen)
    if column.kind == "date" and column.dates is not None and has_trend(column.dates, column, chosen.target):
        column = replace(column, dates=replace(column.dates, has_trend=True))
    if column.kind != candidate.column.kind:
        candidate = replace(candidate, strength=leaks.strongest_aspect(column, chosen.target))
    candidate, strength = replace(candidate, column=column), candidate.strength
    if candidate.doubt or strength is None or not strength.is_suspect:
        return candidate
    return replace(candidate, doubt=f"a strong predictor, {strength.shown} {strength.by}")


def _as_category(column: ColumnProfile, chosen: ChosenLabel) -> ColumnProfile:
    """Returns whole numbers as a category, if few values predict the label each in its own way."""
    numbers = column.numbers
    if numbers is None or not numbers.whole or numbers.low < 0 or column.values.distinct < _FEWEST_CODES:
        return column
    if column.values.distinct <= _MOST_CODES and is_better_by_value(column, chosen.target):
        return replace(column, kind="category", why=BY_VALUE)
    return column


def _read_number(column: ColumnProfile, chosen: ChosenLabel, selection: SelectedColumns) -> None:
    like = column.like or f"1234{column.values.decimal}5"
    number = profile_computed(
        column.name, column.values.per_row(read_written(column.values.texts, like)).astype(np.float32)
    )
    if not is_usable(number):
        selection.left_out.append(YamlLine(column.name, None, f"{column.why}: {number.why}"))
        return
    number = replace(number, kind="number", like=like, why=column.why)
    selection.features.append(FeatureCandidate(number, leaks.strongest_aspect(number, chosen.target)))


def _types_for_label(chosen: ChosenLabel, selection: SelectedColumns) -> dict[str, ColumnType]:
    """Returns the types of the columns that the label reads, and that no feature reads as such."""
    kept = {c.column.name: c.column.kind for c in selection.features}
    return {n: wants for n, wants in chosen.reads.items() if kept.get(n) != "number" or wants == "string"}


def _read_by_label(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """The inputs of a computed label that leak it or are read as another type."""
    inputs = [c for c in selection.features if c.column.name in chosen.reads]
    strongest = max(inputs, key=lambda c: c.strength.value if c.strength else 0.0, default=None)
    for candidate in inputs:
        wants = chosen.reads[candidate.column.name]
        suspect = candidate.strength is not None and candidate.strength.is_suspect
        clashes = wants == "number" and candidate.column.kind in ("boolean", "date", "text", "categories")
        clashes = clashes or (wants == "string" and candidate.column.kind == "number")
        if candidate is strongest or suspect or clashes:
            yield candidate, "the label is computed from it"


@rule("predictions of a model", otherwise=())
def _predictions(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """Predictions of another model: it has seen the label, and may be unavailable at serving time."""
    for candidate in selection.features:
        if words_of(candidate.column.name) & _PREDICTION:
            told = f"; {candidate.strength.shown} alone" if candidate.strength is not None else ""
            yield candidate, f"by its name, the prediction of another model{told}"


@rule("columns that rows to predict lack", otherwise=())
def _unknown(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """Columns that, like the label, are not in the file of rows to predict."""
    beside = chosen.unlabelled
    for candidate in selection.features:
        if beside is not None and candidate.column.name in beside.unknown:
            yield candidate, f"{beside.file} lacks it, like the label"


def _indicators(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """Columns that follow from the label and leak it, such as its one-hot columns; puts others in doubt."""
    candidates = {c.column.name: c for c in selection.features if c.column.values.rows}
    found = leaks.indicators_of_label({name: c.column.values for name, c in candidates.items()}, chosen.target)
    for name, indicator in found.items():
        if indicator.is_leak:
            yield candidates[name], f"gives the label away: {indicator.why}"
        else:
            index = selection.features.index(candidates[name])
            selection.features[index] = replace(candidates[name], doubt=indicator.why)


@rule("columns that give the label away", otherwise=())
def _leaks(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """Columns that give the label away alone."""
    for candidate in selection.features:
        strength = candidate.strength
        # A text may name the class that it is about; the user is asked.
        may = candidate.column.kind != "text" or (strength is not None and strength.by == leaks.BY_MISSING)
        if strength is not None and strength.gives_label_away and may:
            yield candidate, f"gives the label away: {strength.shown} {strength.by}"


@rule("pairs that give the label away", otherwise=())
def _leak_of_pair(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """The only strong column, if it leaks the label together with another column.

    Several strong columns are honest measurements as a rule, two of which tell more; they stay, in doubt.
    """
    target = chosen.target
    suspects = [c for c in selection.features if c.strength is not None and c.strength.is_suspect]
    alone = [c for c in suspects if c.strength is not None and not c.strength.gives_label_away]
    own = groups_for_pairs(alone[0].column, target) if len(suspects) == len(alone) == 1 else None
    for other in selection.features:
        groups = groups_for_pairs(other.column, target) if own is not None and other is not suspects[0] else None
        pair = strength_of_pair(own, groups, target) if own is not None and groups is not None else None
        if pair is not None and pair.is_leak:
            yield suspects[0], f"gives the label away: {pair.shown} beside {other.column.name}"
            return


def _leave_out_sums(profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns) -> None:
    """Omits columns whose sums leak the label or one of its inputs."""
    hidden = {c.name: c.values.row_numbers for c in profile.columns if c.name in chosen.reads}
    if chosen.target.task == "regression" and chosen.derive is None:
        hidden[chosen.column.name] = chosen.target.y
    kept = {candidate.column.name for candidate in selection.features}
    for name, target in hidden.items():
        for _ in range(_MOST_SUMS if name not in kept else 0):
            numbers = {c.column.name: c for c in selection.features if c.column.kind == "number"}
            held = leaks.leaking_summands({n: c.column.values.row_numbers for n, c in numbers.items()}, target)
            if not held:
                break
            for column in held:
                others = ", ".join(other for other in held if other != column)
                sum_of = f"this + {others}" if others else "this, plus or minus other columns"
                selection.leave_out(numbers[column], f"gives {name} away: that is {sum_of}")


@rule("equal columns", otherwise=())
def _repetitions(chosen: ChosenLabel, selection: SelectedColumns) -> Omitted:
    """Columns that equal an earlier column in every row, and categories that are one to one with an earlier one."""
    seen: dict[tuple[tuple[str, ...], bytes], str] = {}
    parted: dict[bytes, str] = {}
    for candidate in selection.features:
        name, values = candidate.column.name, candidate.column.values
        first = seen.setdefault((values.texts, values.codes.tobytes()), name) if values.rows else name
        if first != name:
            yield candidate, f"the same as {first} in every row"
        elif candidate.column.kind in _OF_VALUES and values.present - values.counts[0] >= _FEWEST_OTHERS:
            other = parted.setdefault(pd.factorize(values.codes)[0].tobytes(), name)
            if other != name:
                yield candidate, f"one to one with {other}: each value goes with one of its values"
