"""The Ingest component, a custom ExampleGen. The stock ExampleGens lose zeros, shards and bad rows."""

import copy
import glob
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tfx import types
from tfx.dsl.components.common import resolver
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.beam_component import Artifacts, BeamComponent
from fullpass.components.ingest.events_pass import with_histories
from fullpass.components.ingest.ingest import check_matches, finish_ingestion, ingest_files
from fullpass.components.ingest.ingestion import ingestion_of, with_joins
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request, SpanRequest, read_request
from fullpass.components.ingest.stratified_pass import with_cuts
from fullpass.components.ingest.writing.manifest import COUNTS, Manifest, RowCounts, read_counts, sums
from fullpass.components.ingest.writing.record_writer import PENDING
from fullpass.components.internals.tfx_internals import artifact_utils, base_beam_executor

FINGERPRINT = "fingerprint"
CONTENT = "content"
LABEL = "label"
_ROWS_AT_ONCE = 8192


class IngestExecutor(base_beam_executor.BaseBeamExecutor):
    """Ingests every requested span, and describes each on its own Examples artifact."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        request = read_request(exec_properties["request"])
        artifacts = _artifact_per_span(artifact_utils.get_single_instance(output_dict["examples"]), request.spans)
        output_dict["examples"] = artifacts
        ingestions = [
            ingestion_of(request, span, artifact.uri) for span, artifact in zip(request.spans, artifacts, strict=True)
        ]
        if ingestions:  # `finish_ingestion` removes the folder when all rows are read
            ingestions = with_joins(ingestions, request, f"{ingestions[0].folder}/{PENDING}/joins")
        ingestions = [with_cuts(ingestion, self._make_beam_pipeline) for ingestion in ingestions]
        if ingestions:
            ingestions = with_histories(ingestions, request, f"{ingestions[0].folder}/{PENDING}/history")
            with self._make_beam_pipeline() as pipeline:
                ingest_files(ingestions, pipeline)
        for ingestion, span, artifact in zip(ingestions, request.spans, artifacts, strict=True):
            _describe(artifact, finish_ingestion(ingestion), span)


def _artifact_per_span(artifact: types.Artifact, spans: Sequence[SpanRequest]) -> list[types.Artifact]:
    """Returns an artifact per span. TFX requires one artifact to keep the URI, and several to be directly below it."""
    if len(spans) < 2:
        return [artifact] * len(spans)
    copies = [copy.deepcopy(artifact) for _ in spans]
    for one, span in zip(copies, spans, strict=True):
        one.uri = f"{artifact.uri}/{span.label}"
    return copies


def _describe(examples: types.Artifact, manifest: Manifest, span: SpanRequest) -> None:
    """Records span, splits and row counts on the artifact, for MLMD, reports and other components."""
    examples.split_names = artifact_utils.encode_split_names(list(manifest.written))
    examples.span, examples.version = span.number, span.version
    examples.set_string_custom_property(FINGERPRINT, span.fingerprint)
    examples.set_string_custom_property(CONTENT, span.content)
    examples.set_string_custom_property(LABEL, span.label)
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    examples.set_string_custom_property("file_format", "tfrecords_gzip")  # readers use the file name's suffix
    examples.set_string_custom_property(COUNTS, manifest.to_json())


def by_span(examples: Sequence[types.Artifact]) -> list[types.Artifact]:
    """Returns artifacts in the order of their spans, because TFX guarantees no order."""
    return sorted(examples, key=lambda artifact: artifact.span)


def counts_of(artifact: types.Artifact) -> RowCounts:
    """Returns the numbers of rows of examples, raw or transformed; those of another ExampleGen are counted."""
    if told := artifact.get_string_custom_property(COUNTS):
        return read_counts(told)
    splits = artifact_utils.decode_split_names(artifact.split_names)
    written = dict(zip(splits, _counted(artifact.uri, tuple(splits)), strict=True))
    return RowCounts(read=sum(written.values()), written=written)


@lru_cache(maxsize=64)
def _counted(folder: str, splits: tuple[str, ...]) -> list[int]:
    """Returns the number of rows of each split; a process counts the same examples once."""
    from fullpass.trainer.records.record_files import record_batches  # imports TensorFlow

    files = (fileio.glob(f"{glob.escape(folder)}/Split-{split}/*") for split in splits)
    return [
        sum(len(rows) for file in of_split for rows in record_batches(file, rows=_ROWS_AT_ONCE)) for of_split in files
    ]


def rows_of_split(examples: Sequence[types.Artifact], split: str) -> int:
    """Returns the number of rows of one split in all spans."""
    return sum(counts_of(artifact).written.get(split, 0) for artifact in examples)


def left_out_of(examples: Sequence[types.Artifact]) -> dict[str, int]:
    """Returns reason -> number of rows of all spans that are in no split, and not bad."""
    return sums(pair for artifact in examples for pair in counts_of(artifact).left_out.items())


def with_rows(examples: Sequence[types.Artifact]) -> list[types.Artifact]:
    """Returns the artifacts of the spans of a window without those whose rows a forecast has all left out."""
    counts = [counts_of(artifact) for artifact in examples]
    found = [a for a, count in zip(examples, counts, strict=True) if not count.left_out or any(count.written.values())]
    return found or list(examples)


class Ingest(
    BeamComponent,
    executor=IngestExecutor,
    parameters=("request",),
    inputs={},
    outputs={"examples": standard_artifacts.Examples},
):
    """Converts raw files to TFRecord files of tf.Examples, in splits and shards.

    Outputs: `examples`, one artifact per span that is not known, with the properties span and version and the custom
    properties fingerprint, content (`Window.content`), label and counts (the numbers of rows, `RowCounts` as JSON).
    Each artifact also holds `ingest.json` (the manifest) and, if any row was bad, `quarantine.parquet`.
    """

    def __init__(self, request: Request, *, known: Collection[KnownSpan] = ()):
        """Constructs the component. known: spans that are already ingested."""
        super().__init__(request=request.to_json(known=known))


class SpansOfWindow(resolver.ResolverStrategy):
    """Resolves the examples of every span of the window, from this run or an earlier one: the newest match per span."""

    def __init__(self, fingerprints: Mapping[str, str]):
        """Constructs the strategy. fingerprints: number of the span as text -> fingerprint."""
        self._fingerprints = {int(number): fingerprint for number, fingerprint in fingerprints.items()}

    def resolve_artifacts(
        self, store: object, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Returns `examples`, the oldest span first.

        Args:
            store: The metadata store; unused, because TFX has already looked up the artifacts.
            input_dict: All `examples` that Ingest ever published.

        Raises:
            RuntimeError: A span of the window is not among the artifacts.
            UserError: No span of the window has a row, or no row has a match in a joined table.
        """
        newest: dict[int, types.Artifact] = {}
        for artifact in sorted(input_dict["examples"], key=lambda artifact: artifact.id):
            wanted = self._fingerprints.get(artifact.span)
            if wanted is not None and artifact.get_string_custom_property(FINGERPRINT) == wanted:
                newest[artifact.span] = artifact
        absent = self._fingerprints.keys() - newest.keys()
        if absent:
            raise RuntimeError(f"no examples of the spans {sorted(absent)}, though Ingest ended well")
        examples = [newest[span] for span in sorted(newest)]
        counts = [counts_of(artifact) for artifact in examples]
        if not (read := sum(count.read for count in counts)):
            labels = ", ".join(artifact.get_string_custom_property(LABEL) for artifact in examples)
            raise UserError(
                f"data.source.path: no rows in {labels}; only header lines, or nothing. Wait for the files of a span "
                "with rows, request one by --span, or widen data.window."
            )
        check_matches(sums((join.name, join.unmatched) for count in counts for join in count.joins), read)
        return {"examples": examples}
