"""`fullpass init`: proposes features of two columns of one kind: the distance of positions, the time between dates."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.init.propose_features import duration_of, feature_of, position_pairs, seconds_between
from fullpass.pipeline.authoring.init.propose_label import evaluated, quoted, unique
from fullpass.pipeline.authoring.init.select_columns import SelectedColumns
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, profile_computed
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.profile.strength import Target, strength_of
from fullpass.preprocessing.expressions.expression import parse


@dataclass(eq=False)
class Combinations:
    """Features made of several columns, and the derived columns they need."""

    derive: list[YamlLine] = field(default_factory=list)
    features: list[YamlLine] = field(default_factory=list)


def combine_columns(
    profile: SourceProfile, selection: SelectedColumns, target: Target, taken: Sequence[str]
) -> Combinations:
    """Returns the features that combine columns, if there are exactly two of a kind and they do not leak the label."""
    combined = Combinations()
    columns = [candidate.column for candidate in selection.features]
    _add_distance(combined, profile, columns, target, unique("distance_km", taken))
    _add_duration(combined, columns, target, unique("duration", taken))
    return combined


def _add_distance(
    combined: Combinations, profile: SourceProfile, columns: Sequence[ColumnProfile], target: Target, name: str
) -> None:
    pairs = position_pairs(columns)
    if len(pairs) != 2:
        return
    four = [column for pair in pairs for column in pair]
    try:
        formula = f"haversine({', '.join(quoted(column.name) for column in four)})"
    except UserError:
        return
    distance = profile_computed(name, evaluated(parse(formula), profile, {c.name: "number" for c in four}))
    strength = strength_of(distance, target)
    if distance.kind == "number" and not (strength and strength.is_leak):
        combined.derive.append(YamlLine(name, formula, "km along the great circle"))
        combined.features.append(feature_of(distance, strength))


def _add_duration(combined: Combinations, columns: Sequence[ColumnProfile], target: Target, name: str) -> None:
    dates = [column for column in columns if column.kind == "date"]
    if len(dates) != 2:
        return
    for start, end in (dates, dates[::-1]):
        seconds = seconds_between(start, end)
        if seconds is not None:
            strength = strength_of(profile_computed(name, seconds.astype(np.float32)), target)
            if not (strength and strength.is_leak):
                line = duration_of(name, start, end, seconds)
                told = f"; {strength.shown} alone" if strength else ""
                combined.features.append(YamlLine(name, line.value, line.why + told))
            return
