"""Judges the measurements of an evaluation: the reasons why a model is refused, and what was not judged."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metric import judge_rows, judge_slice, knows_chance, slice_bounds
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict, judged_on_slices
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.measure.metrics import metric_of
from fullpass.components.evaluation.measure.slice_states import MOST_SLICES
from fullpass.trainer.insight.words import too_good_words

_TOO_MANY = f"{{}} has more than {MOST_SLICES:,} combinations of values"
_SHOWN = 6
"""Largest number of failed slices that are named per metric; the report shows all."""


def judge_metrics(
    measured: Sequence[MeasuredRows], config: EvaluationConfig, record: Mapping[str, Any] | None = None
) -> Verdict:
    """Compares the measured metrics with the thresholds.

    A model is blessed if there are rows to measure it on, and every bound was judged and holds.

    Args:
        measured: Metrics on all rows, on the newest span, and on each slice of both.
        record: The content of training.json, to tell why a model is too good; None if it is unknown.
    """
    return _Judgement(measured, config).verdict(record or {})


class _Judgement:
    """The measurements of a model, compared with their bounds: those of all rows and of the newest span apart."""

    def __init__(self, measured: Sequence[MeasuredRows], config: EvaluationConfig) -> None:
        self._config = config
        self._parts = [_Part(measured, config, newest=newest) for newest in (False, True)]

    def verdict(self, record: Mapping[str, Any]) -> Verdict:
        """Returns the verdict."""
        whole, newest = self._parts
        reasons = tuple(self._reasons())
        return Verdict(
            blessed=not reasons,
            reasons=reasons,
            metrics=whole.metrics,
            examples=whole.rows.examples,
            newest=newest.metrics,
            newest_examples=newest.rows.examples,
            slices=(*whole.slices, *newest.slices),
            notes=(*self._notes(), *_too_good(whole.metrics, record)),
            doubt=whole.rows.doubt,
            baselines=whole.rows.baselines,
        )

    def _reasons(self) -> list[str]:
        whole, newest = self._parts
        if not whole.rows.examples:
            return ["the eval split has no labelled example"]
        of_newest = [t.newest_span for t in self._config.thresholds.values() if t.newest_span is not None]
        if of_newest and not newest.rows.examples:
            return ["the newest span has no row in the eval split"]
        reasons = [m.missed for m in whole.metrics if not m.passed]
        reasons += [f"on the newest span {m.missed}" for m in newest.metrics if not m.passed]
        if self._config.beyond_reference and whole.rows.doubt:
            reasons.append(f"{whole.rows.doubt} (evaluation.beyond_reference)")
        for part in self._parts:
            reasons += part.failed_slices()
        for part in self._parts:
            reasons += part.unjudged(self._config.slices, whole.rows.unsliced)
        return reasons

    def _notes(self) -> Iterator[str]:
        """Yields what was not judged, and a doubt that does not refuse the model."""
        whole, newest = self._parts
        if whole.rows.doubt and not self._config.beyond_reference:
            yield whole.rows.doubt
        for columns in whole.rows.unsliced:
            yield f"{_TOO_MANY.format(', '.join(columns))}, so none of its slices is measured"
        for part in self._parts:
            yield from part.notes(self._config.slices)
        causes: dict[str, list[str]] = {}
        for m in whole.metrics:
            causes.setdefault(m.not_compared, []).append(m.metric)
        compared = any(m.baseline is not None for m in whole.metrics)
        if self._config.compares and causes.keys() <= {""} and not compared:
            yield "not_worse_than: there is no last blessed model yet, so nothing was compared"
        yield from (f"{', '.join(names)}: not compared, because {why}" for why, names in causes.items() if why)
        names = [name for name, t in self._config.thresholds.items() if t.inherits_comparison]
        if newest.rows.baseline and (unknown := [name for name in names if not knows_chance(name, newest.rows)]):
            of = f"the newest span, whose {newest.rows.examples:,} examples do not show chance"
            yield f"{', '.join(unknown)}: not compared on {of}"


class _Part:
    """All rows, or those of the newest span: their metrics, and their slices, the largest first."""

    def __init__(self, measured: Sequence[MeasuredRows], config: EvaluationConfig, *, newest: bool) -> None:
        mine = [rows for rows in measured if rows.newest == newest]
        self.rows = next((rows for rows in mine if not rows.keys), MeasuredRows((), {}, newest=newest))
        self.metrics = judge_rows(config, self.rows)
        self.slices = [_slice(rows, config) for rows in mine if rows.keys]
        self.slices.sort(key=lambda one: (-one.examples, one.name))
        self._bounds = slice_bounds(config, newest=newest)
        self._of, self._path = (" of the newest span", ".newest_span") if newest else ("", "")

    def _of_entry(self, columns: Sequence[str]) -> list[Slice]:
        """Returns the slices of an entry of `evaluation.slices`."""
        return [one for one in self.slices if one.columns == tuple(sorted(columns))]

    def notes(self, entries: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yields the slices and the rows that were not judged."""
        for name, bounds in self._bounds.items():
            few = [one.examples for one in self.slices if one.examples < bounds.min_examples]
            none = sum(name not in {m.metric for m in one.judged} for one in self.slices) - len(few)
            why = [f"{len(few)} have fewer than {bounds.min_examples:,} examples ({sum(few):,} in all)"] if few else []
            why += [f"{none} have no {metric_of(name).needs}"] if none else []
            if why:
                yield f"{name}: of {len(self.slices)} slices{self._of}, {' and '.join(why)}; these are not judged"
        for columns in entries if self._bounds else ():
            inside = sum(one.examples for one in self._of_entry(columns))
            if 0 < inside < self.rows.examples:
                yield (
                    f"{self.rows.examples - inside:,} of {self.rows.examples:,} examples{self._of} are in no slice of "
                    f"{', '.join(columns)}, because a value is missing; these are not judged"
                )

    def unjudged(self, entries: Sequence[Sequence[str]], unsliced: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yields the bounds on slices that were judged on no slice of an entry; unsliced: entries with too many."""
        for name, bounds in self._bounds.items():
            for columns in entries:
                mine = self._of_entry(columns)
                if any(m.metric == name for one in mine for m in one.judged):
                    continue
                why = f"none of {len(mine)} slices has {bounds.min_examples:,} examples (min_examples)"
                if needs := metric_of(name).needs:
                    why += f" and {needs}"
                if columns in unsliced:
                    why = f"{_TOO_MANY.format('it')}. Slice by columns with fewer values"
                elif not mine:
                    why = "no example has a value there"
                path = f"evaluation.thresholds.{name}{self._path}.slices"
                of = f"{', '.join(columns)}{self._of}"
                yield f"{name} was judged on no slice of {of}, so {path} does not hold: {why}"

    def failed_slices(self) -> Iterator[str]:
        """Yields the bounds that slices miss, the worst slices of each metric first."""
        for metric, judged in judged_on_slices(self.slices):
            failed = [(one, m) for one, m in judged if not m.passed]
            for one, m in failed[:_SHOWN]:
                yield f"on the slice {one.name}{self._of} ({one.examples:,} examples) {m.missed}"
            if len(failed) > _SHOWN:
                yield f"and {metric} on {len(failed) - _SHOWN} more slices{self._of}; the report shows them"


def _slice(rows: MeasuredRows, config: EvaluationConfig) -> Slice:
    values, baseline = (
        {n: of[n] for n in config.measured if not math.isnan(of.get(n, math.nan))}
        for of in (rows.values, rows.baseline)
    )
    name = ", ".join(f"{column} {value}" for column, value in rows.keys)
    columns = tuple(column for column, _ in rows.keys)
    errors = {n: error for n in values if not math.isnan(error := rows.errors.get(n, math.nan))}
    return Slice(name, rows.examples, values, baseline, rows.newest, judge_slice(config, rows), columns, errors)


def _too_good(metrics: Sequence[Measured], record: Mapping[str, Any]) -> Iterator[str]:
    values = {m.metric: m.value for m in metrics if metric_of(m.metric).tells_all}
    if words := too_good_words(values, record, [name for name in values if metric_of(name).guessed]):
        yield words
