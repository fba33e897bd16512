"""The analysis of the train split, span by span, where what is known of a span is not computed again.

A file of a span is one Beam element, and what its rows come to another, whatever the number of analyzers: so a window
costs what reading its new spans does, and starting Beam's steps costs nothing to speak of.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.impl_helper import METADATA_DIR_NAME
from tfx_bsl.tfxio.tensor_adapter import TensorAdapter

from components.transform.accumulators import Accumulator
from components.transform.analysis import Analysis
from components.transform.analyzer_cache import AnalyzerCache, Entries
from components.transform.read import ReadExamples, RecordReader
from components.transform.traced import Function, Given, trace
from preprocessing.errors import UserError

_Part = tuple[int, Entries]
"""Number of a file or a span, and what its rows came to."""


@dataclass(frozen=True)
class TrainSpan:
    """The train split of one span. label: how people write it. fingerprint: of its records. files: TFRecords."""

    label: str
    fingerprint: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class _Plan:
    """What an analysis has to do. known: keys of the entries of each span that the cache has. absent: keys of the
    analyzers that are computed, for the spans in `missed`.

    The entries themselves stay in the cache until a step needs them: Beam packs all that a step knows, several times.
    """

    spans: tuple[TrainSpan, ...]
    cache: AnalyzerCache | None
    known: tuple[frozenset[bytes], ...]
    missed: tuple[int, ...]
    absent: frozenset[bytes]

    def read(self, number: int) -> Entries:
        """Returns the known entries of a span.

        Raises:
            UserError: They have gone since the plan was made.
        """
        keys = self.known[number]
        if self.cache is None or not keys:
            return {}
        entries = self.cache.read(self.spans[number].fingerprint)
        if not keys <= entries.keys():
            raise UserError(
                f"{self.cache.folder}: what was known of {self.spans[number].label} when this run began is gone. "
                "Something else removes files there; run again, and the span is analysed anew."
            )
        return {key: values for key, values in entries.items() if key in keys}


def analyze(
    pipeline: beam.Pipeline,
    function: Function,
    spans: Sequence[TrainSpan],
    cache: AnalyzerCache | None,
    graph: str,
    rows: int,
) -> tuple[beam.PCollection, Analysis]:
    """Writes the transform graph of the rows of all spans, and fills the cache.

    Args:
        pipeline: runs it.
        function: the preprocessing function.
        spans: the window; the whole train split is one where the source has none.
        cache: of the pipeline; None analyses every span anew and keeps nothing.
        graph: folder that the graph is written to.
        rows: of all spans.

    Returns:
        The folder, once it is written; and where the statistics come from.
    """
    phases = trace(function).phases
    if phases is None:
        analysis = Analysis((), {span.label: "an analyzer needs all of the rows" for span in spans})
        return _by_tensorflow_transform(pipeline, function, spans, graph, rows), analysis
    keys = [frozenset(one.key for one in phase) for phase in phases] or [frozenset()]
    # What is given the constants of others has other states in every window: nothing of it is kept.
    plans = [_plan(spans, None if number else cache, wanted) for number, wanted in enumerate(keys)]
    made: list[beam.PCollection] = []
    for number, plan in enumerate(plans):
        files = [(n, i, path) for n in plan.missed for i, path in enumerate(spans[n].files)]
        total = rows if len(plan.missed) == len(spans) else None
        known = _constants(pipeline, function, plans[:number], made)
        made.append(
            pipeline
            | f"Files{number}" >> beam.Create(files, reshuffle=False)
            | f"Accumulate{number}" >> beam.ParDo(_Accumulate(function, plan.absent, total), *known)
            | f"BySpan{number}" >> beam.GroupByKey()
            | f"Spans{number}" >> beam.ParDo(_JoinFiles(function, plan))
        )
    written = (
        pipeline
        | "Once" >> beam.Create([graph], reshuffle=False)
        | "WriteGraph" >> beam.ParDo(_WriteGraph(function, plans), *map(beam.pvalue.AsList, made))
    )
    return written, _analysis(plans, keys)


def _constants(
    pipeline: beam.Pipeline, function: Function, plans: Sequence[_Plan], made: Sequence[beam.PCollection]
) -> list[beam.pvalue.AsSideInput]:
    """Returns what the phases so far come to, as a side input; nothing for the first."""
    if not plans:
        return []
    once = pipeline | f"Phase{len(plans)}" >> beam.Create([len(plans)], reshuffle=False)
    known = once | f"Constants{len(plans)}" >> beam.ParDo(_Conclude(function, plans), *map(beam.pvalue.AsList, made))
    return [beam.pvalue.AsSingleton(known)]


def _analysis(plans: Sequence[_Plan], keys: Sequence[frozenset[bytes]]) -> Analysis:
    """Returns where the statistics come from. plans: of the phases. keys: of their analyzers."""
    first, later = plans[0], sum(map(len, keys[1:]))
    whys = {first.spans[n].label: _why(len(first.known[n]), len(keys[0])) for n in first.missed}
    for span in first.spans if later else ():
        whys.setdefault(span.label, f"{later} of {later + len(keys[0])} analyzers use the statistics of others")
    hit = tuple(span.label for span in first.spans if span.label not in whys) if keys[0] else ()
    return Analysis(hit, whys)


def _plan(spans: Sequence[TrainSpan], cache: AnalyzerCache | None, wanted: frozenset[bytes]) -> _Plan:
    known = tuple(wanted & cache.read(span.fingerprint).keys() if cache else frozenset[bytes]() for span in spans)
    missed = tuple(n for n, keys in enumerate(known) if keys < wanted)
    absent = frozenset(key for n in missed for key in wanted - known[n])
    return _Plan(tuple(spans), cache, known, missed, absent)


def _why(found: int, wanted: int) -> str:
    return f"{wanted - found} of {wanted} analyzers are new or changed" if found else "not analysed before"


class _Accumulate(beam.DoFn):
    """(number of the span, number of the file, file) -> the span's number, with what the rows of the file come to."""

    def __init__(self, function: Function, keys: frozenset[bytes], rows: int | None):
        self._function = function
        self._keys = keys
        self._rows = rows

    def setup(self) -> None:
        self._adapter = TensorAdapter(self._function.adapter)
        self._accumulators = _of(self._function, self._keys)
        self._given: Given | None = None
        self._reader = RecordReader(self._function.schema, "train analysed", self._rows)

    def process(
        self,
        element: tuple[int, int, str],
        constants: Any = None,  # Beam's own check of types knows no union here
    ) -> Iterator[tuple[int, _Part]]:
        span, number, path = element
        self._given = self._given or trace(self._function).given(self._accumulators, constants or {})
        states = [one.start() for one in self._accumulators]
        empty = True
        for batch in self._reader.batches(path):
            given = self._given(self._adapter.ToBatchTensors(batch))
            empty = False
            for n, one in enumerate(self._accumulators):
                states[n] = one.add(states[n], tuple(given[name] for name in one.tensors))
        if not empty:
            yield span, (number, {one.key: one.encode(s) for one, s in zip(self._accumulators, states, strict=True)})


class _JoinFiles(beam.DoFn):
    """What the files of a span come to -> what the span comes to, which is kept."""

    def __init__(self, function: Function, plan: _Plan):
        self._function = function
        self._plan = plan

    def process(self, element: tuple[int, Iterable[_Part]]) -> Iterator[_Part]:
        span, parts = element
        of_files = [entries for _, entries in sorted(parts, key=lambda part: part[0])]
        accumulators = _of(self._function, self._plan.absent)
        made = (
            of_files[0] if len(of_files) == 1 else {one.key: one.encode(_merged(one, of_files)) for one in accumulators}
        )
        if self._plan.cache is not None:
            self._plan.cache.write(self._plan.spans[span].fingerprint, {**self._plan.read(span), **made})
        yield span, made


class _Conclude(beam.DoFn):
    """Number of a phase -> the constants of those before it."""

    def __init__(self, function: Function, plans: Sequence[_Plan]):
        self._function = function
        self._plans = tuple(plans)

    def process(self, phase: int, *made: Any) -> Iterator[dict[str, np.ndarray]]:
        yield trace(self._function).constants(_states(self._function, self._plans, made), phase)


class _WriteGraph(beam.DoFn):
    """Folder -> the same, once the graph is in it."""

    def __init__(self, function: Function, plans: Sequence[_Plan]):
        self._function = function
        self._plans = tuple(plans)

    def process(self, graph: str, *made: Any) -> Iterator[str]:
        pending = f"{graph}/pending"
        if tf.io.gfile.exists(pending):
            tf.io.gfile.rmtree(pending)
        traced = trace(self._function)
        traced.write(_states(self._function, self._plans, made), pending)
        _publish(graph, pending, traced.assets)
        yield graph


def _states(function: Function, plans: Sequence[_Plan], made: Sequence[Sequence[_Part]]) -> dict[bytes, Any]:
    """Returns the states of phases over all rows: of what was known, and what was made of the other spans."""
    states: dict[bytes, Any] = {}
    for phase, plan, parts in zip(trace(function).phases or (), plans, made, strict=False):
        of_spans = [plan.read(number) for number in range(len(plan.spans))]
        for span, entries in parts:
            of_spans[span] |= entries
        present = [entries for entries in of_spans if entries]
        states |= {one.key: _merged(one, present) for one in phase}
    return states


def _of(function: Function, keys: frozenset[bytes]) -> list[Accumulator]:
    return [one for phase in trace(function).phases or () for one in phase if one.key in keys]


def _merged(one: Accumulator, entries: Sequence[Mapping[bytes, Sequence[bytes]]]) -> Any:
    return one.merge([one.decode(values[one.key]) for values in entries]) if entries else one.start()


def _publish(graph: str, pending: str, assets: Mapping[str, str]) -> None:
    """Renames a graph with its schema inside to the two folders that TF Transform reads."""
    metadata = f"{graph}/{tft.TFTransformOutput.TRANSFORMED_METADATA_DIR}"
    if assets:
        with tf.io.gfile.GFile(f"{pending}/{METADATA_DIR_NAME}/{tft.TFTransformOutput.ASSET_MAP}", "w") as file:
            file.write(json.dumps(assets))
    tf.io.gfile.rename(f"{pending}/{METADATA_DIR_NAME}", metadata, overwrite=True)
    tf.io.gfile.rename(pending, f"{graph}/{tft.TFTransformOutput.TRANSFORM_FN_DIR}", overwrite=True)


def _by_tensorflow_transform(
    pipeline: beam.Pipeline, function: Function, spans: Sequence[TrainSpan], graph: str, rows: int
) -> beam.PCollection:
    """Has TF Transform analyse all rows: it knows analyzers that are given what others come to, and any of Beam."""
    files = [file for span in spans for file in span.files]
    train = pipeline | "Train" >> ReadExamples(files, function.schema, "train analysed", rows)
    with tft_beam.Context(temp_dir=function.temporary):
        made = (train, function.adapter) | "Analyze" >> tft_beam.AnalyzeDataset(function)
        written = made | "WriteGraph" >> tft_beam.WriteTransformFn(graph)
    return written | "Folder" >> beam.Map(lambda _: graph)
