"""Summarizes spans: from the records of a run, on Beam, or from raw files before a run."""

from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from tfx import types

from fullpass.components.accumulate import FileAccumulator, States
from fullpass.components.data_gate.distribution import Distribution
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore, merge_distributions, merge_parts
from fullpass.components.ingest.component import FINGERPRINT, LABEL
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.ingestion import Ingestion, ingestion_of, with_joins
from fullpass.components.ingest.readers.read_source import parts_of
from fullpass.components.ingest.readers.rows import FilePart
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.components.read_records import RecordReader
from fullpass.trainer.input.raw_examples import RawExamples, raw_dtypes

SPAN = "span"
"""Kind of the groups of `SummarizeFiles`: (SPAN, index of the span)."""
SpanName = tuple[int, str, str]
"""Number, label and fingerprint of a span."""


def span_name(examples: types.Artifact, unit: str | None) -> SpanName:
    """Returns the name of an artifact's span. `unit` is the length of a span, or None for a source without spans."""
    label = "" if unit is None else examples.get_string_custom_property(LABEL)
    return examples.span, label, examples.get_string_custom_property(FINGERPRINT)


def missing_summaries(spans: Sequence[SpanName], store: SummaryStore) -> list[int]:
    """Returns the indices of the spans without a summary in the store."""
    return [i for i, (number, _, fingerprint) in enumerate(spans) if store.read(number, fingerprint) is None]


class SummarizeFiles(FileAccumulator):
    """Sketches the files of spans, and writes the summary of each span to the store.

    Args:
        spans: Names of the spans, by index.
    """

    def __init__(self, source: SeriesSource, store: SummaryStore, spans: Sequence[SpanName]):
        self._source, self._store, self._spans = source, store, list(spans)
        self._dtypes = raw_dtypes({column.name: column for column in source.columns})
        self._reader = RecordReader("summarised", None, dtypes=self._dtypes)

    def start(self, constants: Any) -> None:
        self._examples = RawExamples(self._dtypes)

    def accumulate(self, path: str, groups: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
        sketches = Sketches(self._source)
        for batch in self._reader.parsed(path, self._examples.lists):
            sketches.add_batch(batch)
        yield groups[0], (sketches.rows, sketches.distributions())

    def merge(self, group: Any, states: States[tuple[int, dict[str, Distribution]]]) -> None:
        rows, distributions = states.merged(_together)
        number, label, fingerprint = self._spans[group[1]]
        self._store.write(merge_parts(number, label, fingerprint, rows, [distributions]))


def _together(parts: Sequence[tuple[int, dict[str, Distribution]]]) -> tuple[int, dict[str, Distribution]]:
    rows, distributions = zip(*parts, strict=True)
    return sum(rows), merge_distributions(distributions)


def summarize_raw(request: Request, span: SpanRequest, source: SeriesSource) -> SpanSummary:
    """Returns the summary of a span that is not ingested yet, from the rows that Ingest would write.

    Args:
        request: The request to Ingest, with the columns of `source`.

    Raises:
        UserError: A file cannot be read, or lacks a column.
    """
    request = request.limited_to([span])
    with TemporaryDirectory() as folder:
        joined = with_joins([ingestion_of(request, span, folder)], request, f"{folder}/joins")
        (ingestion,) = with_histories(joined, request, f"{folder}/history")
        parts = [
            _sketch_part(ingestion, index, part, source)
            for index, file in enumerate(span.files)
            for part in parts_of(file, request.config.source)
        ]
    rows = sum(part.rows for part in parts)
    return merge_parts(span.number, span.label, span.fingerprint, rows, [part.distributions() for part in parts])


def _sketch_part(ingestion: Ingestion, index: int, part: FilePart, source: SeriesSource) -> Sketches:
    sketches = Sketches(source)
    reading = ingestion.reading(ingestion.files[index], part)
    for _, arrays, good in ingestion.batches(reading):
        usable = {name: array.filter(pa.array(good)) for name, array in arrays.items()}
        sketches.add(usable, int(good.sum()))
    return sketches
