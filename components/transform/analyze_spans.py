"""Analyzes the train split span by span; accumulator states of known spans come from the cache.

The states of a file are one Beam element, for any number of analyzers. Therefore the cost of a window is the cost of
reading its new spans, and the cost of starting Beam's steps is negligible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.base.errors import UserError
from fullpass.components.accumulate import AccumulateFiles, FileAccumulator, States
from fullpass.components.read_records import RecordReader
from fullpass.components.transform.analysis_plan import Analysis
from fullpass.components.transform.analyzer_cache import AnalyzerCache
from fullpass.components.transform.read_examples import (
    ANALYZED_SPLIT,
    ReadExamples,
    ToRecordBatches,
    batch_bytes_of,
    dtypes_of,
    parser_of,
)
from fullpass.preprocessing.analysis.accumulators import Accumulator, EncodedStates
from fullpass.preprocessing.analysis.analyze import BatchAccumulator, analyze_on_beam, merge_states, write_graph
from fullpass.preprocessing.analysis.traced_preprocessing import PreprocessingFunction, trace
from fullpass.preprocessing.config import PreprocessingConfig

_Part = tuple[int, EncodedStates]
"""Index of a span, and its encoded accumulator states."""


@dataclass(frozen=True)
class TrainSpan:
    """The train split of one span. label: display name. fingerprint: of the span's records. files: TFRecord files."""

    label: str
    fingerprint: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class _Plan:
    """The work of one phase.

    The states stay in the cache until a step needs them, because Beam pickles the fields of a step several times.

    Attributes:
        spans: The spans of the window.
        cache: The analyzer cache, if there is one.
        known: For each span, the keys of its states in the cache.
        missed: Indices of the spans to analyze.
        absent: Keys of the states to accumulate for these spans.
    """

    spans: tuple[TrainSpan, ...]
    cache: AnalyzerCache | None
    known: tuple[frozenset[bytes], ...]
    missed: tuple[int, ...]
    absent: frozenset[bytes]

    def read(self, index: int) -> EncodedStates:
        """Returns the cached states of a span.

        Raises:
            UserError: The states were removed from the cache after the plan was made.
        """
        keys = self.known[index]
        if self.cache is None or not keys:
            return {}
        states = self.cache.read(self.spans[index].fingerprint)
        if not keys <= states.keys():
            raise UserError(
                f"{self.cache.folder}: the cached statistics of {self.spans[index].label} were removed after "
                "this run began. Another process removes files there. Run again; the span is then analysed again."
            )
        return {key: values for key, values in states.items() if key in keys}


def analyze_spans(
    pipeline: beam.Pipeline,
    function: PreprocessingFunction,
    spans: Sequence[TrainSpan],
    cache: AnalyzerCache | None,
    graph: str,
    rows: int,
) -> tuple[beam.PCollection, Analysis]:
    """Writes the transform graph for the rows of all spans, and fills the cache.

    Args:
        spans: The window; for a source without spans, a single span with the whole train split.
        cache: Analyzer cache of the pipeline; None analyzes every span and keeps no states.
        graph: Folder to write the graph to.

    Returns:
        The folder, as a PCollection that is available when the graph is written, and the origin of the statistics.
    """
    phases = trace(function).phases
    if phases is None:
        files = [file for span in spans for file in span.files]
        records = pipeline | "Train" >> ReadExamples(files, "train analysed", rows)
        decode = beam.ParDo(ToRecordBatches(function.schema)).with_output_types(pa.RecordBatch)
        train = records | "Decode" >> decode
        analysis = Analysis((), {span.label: "an analyzer needs all of the rows" for span in spans})
        return analyze_on_beam(train, function, graph), analysis
    keys = [frozenset(one.key for one in phase) for phase in phases] or [frozenset()]
    # The states of later phases depend on constants of the whole window, so they are not cached.
    plans = [_plan(spans, None if index else cache, wanted) for index, wanted in enumerate(keys)]
    merged: list[beam.PCollection] = []
    for index, plan in enumerate(plans):
        files_of_spans = [(path, (span,)) for span in plan.missed for path in spans[span].files]
        total = rows if len(plan.missed) == len(spans) else None
        constants = _constants(pipeline, function, plans[:index], merged)
        accumulate = AccumulateFiles(
            files_of_spans, _AnalyzeFiles(function, plan, total), f"{function.temporary}/states{index}", constants
        )
        merged.append(pipeline | f"Analyze{index}" >> accumulate)
    written = (
        pipeline
        | "Once" >> beam.Create([graph], reshuffle=False)
        | "WriteGraph" >> beam.ParDo(_WriteGraph(function, plans), *map(beam.pvalue.AsList, merged))
    )
    return written, _analysis(plans, keys)


def _constants(
    pipeline: beam.Pipeline, function: PreprocessingFunction, plans: Sequence[_Plan], merged: Sequence[beam.PCollection]
) -> beam.pvalue.AsSideInput | None:
    """Returns the constants of all phases before the next one as a side input; the first phase has none."""
    if not plans:
        return None
    once = pipeline | f"Phase{len(plans)}" >> beam.Create([len(plans)], reshuffle=False)
    constants = once | f"Constants{len(plans)}" >> beam.ParDo(
        _Constants(function, plans), *map(beam.pvalue.AsList, merged)
    )
    return beam.pvalue.AsSingleton(constants)


def _analysis(plans: Sequence[_Plan], keys: Sequence[frozenset[bytes]]) -> Analysis:
    """Returns the origin of the statistics, from the plan and the accumulator keys of each phase."""
    first, later = plans[0], sum(map(len, keys[1:]))
    whys = {first.spans[n].label: _why(len(first.known[n]), len(keys[0])) for n in first.missed}
    with_rows = [span for span, keys in zip(first.spans, first.known, strict=True) if span.files or keys]
    for span in with_rows if later else ():
        whys.setdefault(span.label, f"{later} of {later + len(keys[0])} analyzers depend on the statistics of others")
    hit = tuple(span.label for span in with_rows if span.label not in whys) if keys[0] else ()
    return Analysis(hit, whys)


def _plan(spans: Sequence[TrainSpan], cache: AnalyzerCache | None, wanted: frozenset[bytes]) -> _Plan:
    cached = (cache.read(span.fingerprint, whole=True) if cache else {} for span in spans)
    known = tuple(wanted & states.keys() for states in cached)
    # A span without train rows has no states, and needs no analysis.
    missed = tuple(n for n, keys in enumerate(known) if keys < wanted and spans[n].files)
    absent = frozenset(key for n in missed for key in wanted - known[n])
    return _Plan(tuple(spans), cache, known, missed, absent)


def _why(found: int, wanted: int) -> str:
    return f"{wanted - found} of {wanted} analyzers are new or changed" if found else "not analysed before"


class _AnalyzeFiles(FileAccumulator):
    """Accumulates the files of a span to encoded states, and writes the states of the span to the cache."""

    def __init__(self, function: PreprocessingFunction, plan: _Plan, rows: int | None):
        self._function, self._plan = function, plan
        config = PreprocessingConfig.model_validate_json(function.preprocessing)
        dtypes = dtypes_of(schema_pb2.Schema.FromString(function.schema))
        self._reader = RecordReader("train analysed", rows, batch_bytes=batch_bytes_of(config), dtypes=dtypes)

    def start(self, constants: Any) -> None:
        accumulators = _of(self._function, self._plan.absent)
        self._accumulator = BatchAccumulator(self._function, accumulators, constants or {})
        self._parse = parser_of(self._function.schema, self._accumulator.columns, ANALYZED_SPLIT)

    def accumulate(self, path: str, groups: tuple[Any, ...]) -> Iterator[tuple[Any, EncodedStates]]:
        encoded = self._accumulator.accumulate(self._reader.parsed(path, self._parse))
        if encoded:
            yield groups[0], encoded

    def merge(self, group: Any, states: States[EncodedStates]) -> EncodedStates:
        merged = states.merged(self._together)
        if self._plan.cache is not None:
            self._plan.cache.write(self._plan.spans[group].fingerprint, {**self._plan.read(group), **merged})
        return merged

    def _together(self, parts: Sequence[EncodedStates]) -> EncodedStates:
        accumulators = _of(self._function, self._plan.absent)
        merged = merge_states(accumulators, parts)
        return {one.key: one.encode(merged[one.key]) for one in accumulators}


class _Constants(beam.DoFn):
    """Computes constants: index of a phase -> the constants of the phases before it."""

    def __init__(self, function: PreprocessingFunction, plans: Sequence[_Plan]):
        self._function = function
        self._plans = tuple(plans)

    def process(self, phase: int, *merged: Any) -> Iterator[dict[str, np.ndarray]]:
        yield trace(self._function).constants(_states(self._function, self._plans, merged), phase)


class _WriteGraph(beam.DoFn):
    """Writes the transform graph to a folder, and yields the folder."""

    def __init__(self, function: PreprocessingFunction, plans: Sequence[_Plan]):
        self._function = function
        self._plans = tuple(plans)

    def process(self, graph: str, *merged: Any) -> Iterator[str]:
        write_graph(self._function, _states(self._function, self._plans, merged), graph)
        yield graph


def _states(
    function: PreprocessingFunction, plans: Sequence[_Plan], merged: Sequence[Sequence[_Part]]
) -> dict[bytes, Any]:
    """Returns the states of phases over all rows, from the cached and the newly accumulated states of each span."""
    states: dict[bytes, Any] = {}
    for phase, plan, parts in zip(trace(function).phases or (), plans, merged, strict=False):
        of_spans = [plan.read(index) for index in range(len(plan.spans))]
        for span, encoded in parts:
            of_spans[span] |= encoded
        states |= merge_states(phase, [encoded for encoded in of_spans if encoded])
    return states


def _of(function: PreprocessingFunction, keys: frozenset[bytes]) -> list[Accumulator]:
    return [one for phase in trace(function).phases or () for one in phase if one.key in keys]
