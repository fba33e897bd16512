"""The analysis of the train split, span by span, where what is known of a span is not computed again.

TF Transform's graph grows with datasets times analyzers. All spans whose every entry is in the cache are therefore one
dataset to it, and an entry of that dataset is the accumulators of all of them: a window of any width costs what its new
spans do.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.beam import analysis_graph_builder
from tensorflow_transform.beam.analyzer_cache import DatasetCache, DatasetKey
from tfx_bsl.tfxio.tensor_adapter import TensorAdapter, TensorAdapterConfig

from components.transform.analysis import Analysis
from components.transform.analyzer_cache import AnalyzerCache, Entries

_KNOWN = DatasetKey("known")

Read = Callable[[Sequence[str], str], beam.PTransform]
"""(files, name) -> what reads them as RecordBatches."""


@dataclass(frozen=True)
class TrainSpan:
    """The train split of one span. label: how people write it. fingerprint: of its records. files: TFRecords."""

    label: str
    fingerprint: str
    files: tuple[str, ...]


def analyze(
    pipeline: beam.Pipeline,
    function: Callable[[Any], Any],
    adapter: TensorAdapterConfig,
    spans: Sequence[TrainSpan],
    cache: AnalyzerCache,
    read: Read,
) -> tuple[Any, Analysis]:
    """Returns TF Transform's transform function, deferred, and where it comes from; fills the cache.

    Args:
        pipeline: runs it.
        function: the preprocessing function of the batch alone.
        adapter: how RecordBatches become tensors.
        spans: the window.
        cache: of the pipeline.
        read: makes what reads files.
    """
    specs = TensorAdapter(adapter).OriginalTypeSpecs()
    found = {span.fingerprint: cache.read(span.fingerprint) for span in spans}
    # The keys cost a trace of the function, and tell nothing where nothing is known.
    wanted = _keys(function, specs) if any(found.values()) else frozenset()
    entries = {fingerprint: _wanted(of_span, wanted) for fingerprint, of_span in found.items()}
    hit = [span for span in spans if wanted and len(entries[span.fingerprint]) == len(wanted)]
    missed = [span for span in spans if span not in hit]
    joined = {_KNOWN: _joined([entries[span.fingerprint] for span in hit])} if hit else {}
    joined |= {DatasetKey(span.fingerprint): entries[span.fingerprint] for span in missed}
    known = {key: _as_collections(pipeline, key, found) for key, found in joined.items() if found}
    needed = set(joined)
    if hit:
        needed = analysis_graph_builder.get_analysis_dataset_keys(function, specs, needed, known, False)
    files = {_KNOWN: [file for span in hit for file in span.files]}
    files |= {DatasetKey(span.fingerprint): list(span.files) for span in missed}
    labels = {_KNOWN: "known"} | {DatasetKey(span.fingerprint): span.label for span in missed}
    data = {key: pipeline | read(files[key], labels[key]) if key in needed else None for key in joined}
    transform_fn, made = (data, known, adapter) | "Analyze" >> tft_beam.AnalyzeDatasetWithCache(function)
    _write(cache, made, {span.fingerprint: entries[span.fingerprint] for span in missed})
    whys = {span.label: _why(len(entries[span.fingerprint]), len(wanted)) for span in missed}
    return transform_fn, Analysis(tuple(span.label for span in hit), whys, bool(hit) and _KNOWN in needed)


def _keys(function: Callable[[Any], Any], specs: Mapping[str, Any]) -> frozenset[bytes]:
    """Returns the keys of all analyzers of the function."""
    return frozenset(analysis_graph_builder.get_analysis_cache_entry_keys(function, specs, {_KNOWN}, False))


def _wanted(entries: Entries, wanted: Collection[bytes]) -> Entries:
    return {key: values for key, values in entries.items() if key in wanted}


def _joined(entries: Sequence[Entries]) -> Entries:
    return {key: [value for of_span in entries for value in of_span[key]] for key in entries[0]}


def _why(found: int, wanted: int) -> str:
    return f"{wanted - found} of {wanted} analyzers are new or changed" if found else "not analysed before"


def _as_collections(pipeline: beam.Pipeline, key: DatasetKey, entries: Entries) -> DatasetCache:
    collections = {
        name: pipeline | f"Cached[{key.key}][{i}]" >> beam.Create(entries[name], reshuffle=False)
        for i, name in enumerate(sorted(entries))
    }
    return DatasetCache(collections, None)


def _write(cache: AnalyzerCache, made: Mapping[DatasetKey, DatasetCache], earlier: Mapping[str, Entries]) -> None:
    """Keeps what was computed, beside what was in the cache already."""
    named = [
        collection | f"Entry[{key.key}][{i}]" >> beam.Map(_with_name, key.key, name)
        for key, of_span in (made or {}).items()
        if key != _KNOWN
        for i, (name, collection) in enumerate(sorted(of_span.items()))
    ]
    if named:
        _ = (
            named
            | "Entries" >> beam.Flatten()
            | "BySpan" >> beam.GroupByKey()
            | "Keep" >> beam.ParDo(_Keep(cache, earlier))
        )


def _with_name(value: bytes, fingerprint: str, name: bytes) -> tuple[str, tuple[bytes, bytes]]:
    return fingerprint, (name, value)


class _Keep(beam.DoFn):
    """Writes all entries of a span at once."""

    def __init__(self, cache: AnalyzerCache, earlier: Mapping[str, Entries]):
        self._cache = cache
        self._earlier = dict(earlier)

    def process(self, element: tuple[str, Any]) -> Iterator[None]:
        fingerprint, made = element
        entries = dict(self._earlier[fingerprint])
        for name, value in made:
            entries.setdefault(name, []).append(value)
        self._cache.write(fingerprint, entries)
        yield from ()
