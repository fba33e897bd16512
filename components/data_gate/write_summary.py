"""The last step of summarizing spans on Beam: merges the parts of a span into its summary and writes it."""

from collections.abc import Iterable, Sequence

from tfx import types

from fullpass.components.data_gate.distribution import Distribution
from fullpass.components.data_gate.span_summary import SummaryStore, merge_parts
from fullpass.components.ingest.component import FINGERPRINT, LABEL

SpanName = tuple[int, str, str]
"""Number, label and fingerprint of a span."""
Part = tuple[int, dict[str, Distribution]]
"""Number of rows of a file, and the distribution of each series."""


def span_name(examples: types.Artifact, unit: str | None) -> SpanName:
    """Returns the name of an artifact's span. `unit` is the length of a span, or None for a source without spans."""
    label = "" if unit is None else examples.get_string_custom_property(LABEL)
    return examples.span, label, examples.get_string_custom_property(FINGERPRINT)


def missing_summaries(spans: Sequence[SpanName], store: SummaryStore) -> list[int]:
    """Returns the indices of the spans without a summary in the store."""
    return [i for i, (number, _, fingerprint) in enumerate(spans) if store.read(number, fingerprint) is None]


class WriteSummary:
    """Writes the summary of a span to the store: (index of a span, its parts) -> None.

    Args:
        store: store of the pipeline.
        spans: names of the spans, by index.
    """

    def __init__(self, store: SummaryStore, spans: Sequence[SpanName]):
        self._store, self._spans = store, list(spans)

    def __call__(self, span: int, parts: Iterable[Part]) -> None:
        counts, distributions = zip(*parts, strict=True)
        self._store.write(merge_parts(*self._spans[span], sum(counts), distributions))
