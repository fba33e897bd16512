"""Rows with the scores of models, and what is measured of them in parts, as a Beam job accumulates them."""

from collections.abc import Mapping

import numpy as np

from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import Measurements, SliceAccumulator
from fullpass.components.evaluation.measure.slices import SliceKey


def scored_by(*models: Scored, first: int = 0, columns: Mapping[str, Codes] | None = None) -> ScoredRows:
    """Returns rows of one span, numbered from `first`, that each of the models scored."""
    ids = np.arange(first, first + len(models[0].labels))
    return ScoredRows(ids, np.zeros(len(ids), np.int64), columns or {}, models)


def measured(
    metrics: tuple[str, ...], scored: Scored, zones: np.ndarray | None = None, parts: int = 1
) -> tuple[Measurements, Mapping[SliceKey, int]]:
    """Returns the measurements of rows that are added in parts and merged, and the place of each slice.

    Args:
        zones: The zone of each row, a number from 0, by which the rows are also sliced; int64 [rows].
    """
    one = SliceAccumulator(metrics, () if zones is None else (("zone",),), None, 1)
    values = () if zones is None else tuple(map(float, range(zones.max() + 1)))
    states = []
    for part in np.array_split(np.arange(len(scored.labels)), parts):
        columns = {} if zones is None else {"zone": Codes(zones[part], values)}
        first = int(part[0]) if len(part) else 0
        states.append(one.add(one.start(), scored_by(scored.chosen(part), first=first, columns=columns)))
    state = one.merge(states)
    return one.measure(state), state.indices
