"""`fullpass init`: features of several columns: sequences of lists, distances, and times between dates."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.init.propose_features import duration_of, feature_of, position_pairs, seconds_between
from fullpass.pipeline.authoring.init.propose_label import evaluated, quoted, unique
from fullpass.pipeline.authoring.init.select_columns import FeatureCandidate, SelectedColumns
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_computed
from fullpass.pipeline.authoring.profile.sample import Sample
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.profile.strength import Target, strength_of
from fullpass.preprocessing.expressions.expression import parse_expression
from fullpass.preprocessing.values.list_values import lengths_of

_KINDS = ("number", "category", "boolean", "date")
_LONGEST = 50
"""Last elements of a sequence that are read: attention takes the square of the time."""
_FEWEST_LENGTHS = 3
"""Different lengths of lists that are sequences; a few equal ones agree by chance."""


def propose_sequences(sample: Sample, selection: SelectedColumns) -> list[YamlLine]:
    """Removes the columns of sequences from the features, and returns the entries of `sequences`.

    The fields of structs or objects in one list form a sequence. Lists of other columns form a sequence if they are
    equally long in every row and have at least three different lengths. A single column stays a list.
    """
    groups: dict[tuple[str, bytes], list[FeatureCandidate]] = {}
    for candidate in selection.features:
        name, elements = candidate.column.name, candidate.column.elements
        if candidate.column.kind == "list" and elements is not None and elements.kind in _KINDS:
            lengths = lengths_of(sample.seen_columns[name])
            if len(np.unique(lengths)) >= _FEWEST_LENGTHS:
                groups.setdefault((name.rpartition(".")[0], lengths.tobytes()), []).append(candidate)
    lines: list[YamlLine] = []
    for (within, lengths_of_group), members in groups.items():
        if 1 < len(members) < len(selection.features):  # at least one feature must remain outside the sequences
            longest = int(np.frombuffer(lengths_of_group, np.int64).max())
            name = unique(within.rpartition(".")[2] or "sequence", [line.name for line in lines])
            lines.append(_line(name, within, members, longest))
            selection.features = [one for one in selection.features if one not in members]
            selection.left_out = [line for line in selection.left_out if line.name != within]
    return lines


def _line(name: str, within: str, members: Sequence[FeatureCandidate], longest: int) -> YamlLine:
    columns = {one.column.name.removeprefix(f"{within}.") if within else one.column.name: one for one in members}
    of_list = {"within": within} if within else {}
    why = f"lists that are equally long in every row, of up to {longest}; their last elements are read in order"
    fields = {"columns": {key: _column(one) for key, one in columns.items()}, "max_length": min(longest, _LONGEST)}
    return YamlLine(name, {**of_list, **fields, "keep": "last"}, why)


def _column(candidate: FeatureCandidate) -> str | dict:
    """Returns the feature of a column as a sequence declares it: without the key `list`."""
    value = {key: field for key, field in feature_of(candidate.column, None).value.items() if key != "list"}
    return value if len(value) > 1 else value["type"]


def combine_columns(
    profile: SourceProfile, selection: SelectedColumns, target: Target, taken: Sequence[str]
) -> tuple[list[YamlLine], list[YamlLine]]:
    """Returns the derived columns and the features that combine exactly two columns of a kind without a leak."""
    columns = [candidate.column for candidate in selection.features]
    derive, distance = _distance(profile, columns, target, unique("distance_km", taken))
    return derive, distance + _duration(columns, target, unique("duration", taken))


def _distance(
    profile: SourceProfile, columns: Sequence[ColumnProfile], target: Target, name: str
) -> tuple[list[YamlLine], list[YamlLine]]:
    pairs = position_pairs(columns)
    if len(pairs) != 2:
        return [], []
    four = [column for pair in pairs for column in pair]
    try:
        formula = f"haversine({', '.join(quoted(column.name) for column in four)})"
    except UserError:
        return [], []
    distance = profile_computed(name, evaluated(parse_expression(formula), profile, {c.name: "number" for c in four}))
    strength = strength_of(distance, target)
    if distance.kind != "number" or (strength and strength.is_leak):
        return [], []
    return [YamlLine(name, formula, "km along the great circle")], [feature_of(distance, strength)]


def _duration(columns: Sequence[ColumnProfile], target: Target, name: str) -> list[YamlLine]:
    dates = [column for column in columns if column.kind == "date"]
    for start, end in (dates, dates[::-1]) if len(dates) == 2 else ():
        if (seconds := seconds_between(start, end)) is not None:
            strength = strength_of(profile_computed(name, seconds.astype(np.float32)), target)
            if strength and strength.is_leak:
                return []
            line = duration_of(name, start, end, seconds)
            return [replace(line, why=line.why + f"; {strength.shown} alone" if strength else line.why)]
    return []
