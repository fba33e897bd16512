"""Measures one or two models on rows in this process, with the accumulator, metrics and intervals of the Evaluator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullpass.components.evaluation.measure.class_results import ClassResults
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED, MeasuredRows, text_of
from fullpass.components.evaluation.measure.score_curves import Curves
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows, SliceValue
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slice_states import SliceState
from fullpass.preprocessing.values.row_sample import MOST_ROWS, mixed
from fullpass.trainer.insight.words import reference_doubt, reference_words

_ROWS = 1 << 16
"""Rows that are accumulated at a time."""


@dataclass(frozen=True)
class Measurement:
    """The metrics, and the curves and classes of each model; the latter two are empty if no metric needs them."""

    measured: Sequence[MeasuredRows]
    curves: Sequence[Curves | None]
    classes: Sequence[ClassResults | None]

    @property
    def whole(self) -> MeasuredRows:
        """The metrics of all rows."""
        return next(rows for rows in self.measured if not rows.keys and not rows.newest)


def measure_rows(metrics: Sequence[str], slices: Sequence[tuple[str, ...]], rows: Iterable[ScoredRows]) -> Measurement:
    """Measures the models of some batches of rows.

    Args:
        slices: Columns of each kind of slice; the batches have all of them.
        rows: Batches of at least one row; `models` has one or two entries, in all of them the same number.
    """
    names, state, accumulator = tuple(dict.fromkeys((ALWAYS_MEASURED, *metrics))), None, None
    for batch in rows:
        if accumulator is None:
            accumulator = SliceAccumulator(names, tuple(slices), None, len(batch.models))
        state = accumulator.add(state or accumulator.start(), batch)
    if accumulator is None or state is None:
        return Measurement([MeasuredRows((), {ALWAYS_MEASURED: 0})], [], [])
    return Measurement(measured_of(accumulator, state), accumulator.curves(state), accumulator.classes(state))


def measured_of(
    accumulator: SliceAccumulator, state: SliceState, record: Mapping[str, Any] | None = None, not_measured: str = ""
) -> list[MeasuredRows]:
    """Returns the metrics of each slice; all rows and the newest span come first.

    Args:
        record: The content of training.json, with the simple reference.
        not_measured: Why the last blessed model is not measured.
    """
    baselines: list[dict[str, Any]] = []
    if accumulator.baselines is not None and state.baselines is not None:
        baselines = accumulator.baselines.results(state.baselines)
    doubt = reference_doubt(record or {}, baselines)
    measurements = accumulator.measure(state)
    not_compared = dict.fromkeys(accumulator.metrics, not_measured) if not_measured else accumulator.not_compared(state)
    uncounted = accumulator.uncounted(state)
    measured = []
    for key in sorted(state.indices, key=lambda key: (key.entry, key.newest, key.values)):
        columns = accumulator.slices[key.entry] if key.entry >= 0 else ()
        shared = tuple(sorted((column, text_of(value)) for column, value in zip(columns, key.values, strict=True)))
        index = state.indices[key]
        values = [_at(index, one) for one in measurements.values]
        measured.append(
            MeasuredRows(
                shared,
                values[0],
                values[1] if len(values) > 1 else {},
                key.newest,
                _at(index, measurements.errors[0]),
                _at(index, measurements.differences),
                tuple(accumulator.slices[entry] for entry in sorted(state.overflowed)) if key.entry < 0 else (),
                doubt if key.entry < 0 and not key.newest else "",
                tuple(map(reference_words, baselines)) if key.entry < 0 and not key.newest else (),
                not_compared,
                uncounted,
            )
        )
    return measured


def _at(index: int, values: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(of_slices[index]) for name, of_slices in values.items()}


def joined(batches: Sequence[ScoredRows]) -> ScoredRows:
    """Returns the rows of several batches of the same models as one."""
    return ScoredRows(
        row_ids=np.concatenate([batch.row_ids for batch in batches]),
        spans=np.concatenate([batch.spans for batch in batches]),
        columns={name: _joined_codes([batch.columns[name] for batch in batches]) for name in batches[0].columns},
        models=tuple(map(_joined_scores, zip(*(batch.models for batch in batches), strict=True))),
    )


def chosen(rows: ScoredRows, index: np.ndarray) -> ScoredRows:
    """Returns some rows. index: their indices, int64 [n], or a mask, bool [rows]."""
    columns = {name: replace(column, codes=column.codes[index]) for name, column in rows.columns.items()}
    return ScoredRows(
        rows.row_ids[index], rows.spans[index], columns, tuple(model.chosen(index) for model in rows.models)
    )


def sampled(rows: ScoredRows) -> ScoredRows:
    """Returns the rows that the sample of an evaluation would hold (`RowSample`), in its order."""
    return chosen(rows, np.argsort(mixed(rows.row_ids), kind="stable")[:MOST_ROWS])


def in_batches(rows: ScoredRows) -> Iterable[ScoredRows]:
    """Yields the rows in batches, whose arrays are small enough to be copied by every metric."""
    for start in range(0, len(rows.row_ids), _ROWS):
        yield chosen(rows, np.arange(start, min(start + _ROWS, len(rows.row_ids))))


def _joined_codes(parts: Sequence[Codes]) -> Codes:
    known: dict[SliceValue, int] = {}
    codes = []
    for part in parts:
        moved = np.array([known.setdefault(value, len(known)) for value in part.values] + [-1])
        codes.append(moved[part.codes])  # -1 is the last element
    return Codes(np.concatenate(codes), tuple(known))


def _joined_scores(parts: Sequence[Scored]) -> Scored:
    def of(name: str) -> np.ndarray | None:
        found = [value for part in parts if (value := getattr(part, name)) is not None]
        return np.concatenate(found) if found else None

    whole = next((part for part in parts if len(part.labels)), parts[0])
    arrays = {name: of(name) for name in ("labels", "weights", "scores", "quantiles", "positive")}
    return replace(whole, **arrays)  # type: ignore[arg-type]
