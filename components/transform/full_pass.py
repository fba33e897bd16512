"""The full pass on Beam: reads records in C++ batches, analyzes train, and transforms and writes every split.

Reading (`read_records.py`), analysis (`analyze_spans.py`), applying the graph (`apply_graph.py`) and writing are
separate, so each can be optimized independently.
"""

import glob
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.dsl.io import fileio

from fullpass.base.files import read_json
from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.writing.record_writer import PENDING, ChunkWriter, JoinChunks, publish
from fullpass.components.ingest.writing.shards import ShardLayout, WrittenChunk
from fullpass.components.transform.analysis_plan import Analysis
from fullpass.components.transform.analyze_spans import TrainSpan, analyze_spans
from fullpass.components.transform.analyzer_cache import AnalyzerCache
from fullpass.components.transform.apply_graph import ApplyGraph, TransformedRows
from fullpass.components.transform.own_outputs import id_sizes
from fullpass.components.transform.read_examples import ANALYZED_SPLIT, ReadExamples, batch_bytes_of, dtypes_of
from fullpass.preprocessing.analysis.traced_preprocessing import PreprocessingFunction
from fullpass.preprocessing.apply.stable_ids import BaseModelRef
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import GlobalWindows, Shared
from fullpass.preprocessing.internals.tft_internals import DatasetMetadata, write_metadata
from fullpass.trainer.export.sample_requests import write_samples
from fullpass.trainer.records import blocks
from fullpass.trainer.records.column_files import ColumnFile, ColumnWriter, publish_columns

SAMPLED_SPLIT = "eval"


@dataclass(frozen=True)
class FullPass:
    """The parameters of one Transform execution.

    Attributes:
        transformed: Folder for transformed examples, or None to write only the graph.
        spans: The train split of each span, if the source has spans.
        cache: Folder of the accumulator states of the spans.
        base_model: The model whose vocabulary ids are kept stable.
    """

    preprocessing: PreprocessingConfig
    schema: schema_pb2.Schema
    examples: Mapping[str, Sequence[str]]
    rows: Mapping[str, int]
    graph: str
    transformed: str | None
    layout: ShardLayout
    temporary: str
    spans: tuple[TrainSpan, ...] = ()
    cache: str | None = None
    base_model: BaseModelRef = BaseModelRef()


def run_full_pass(full_pass: FullPass, pipeline: beam.Pipeline) -> Analysis | None:
    """Builds the Beam graph. Statistics come only from the train split.

    Returns:
        The origin of the statistics of each span; None without a cache.
    """
    spans = full_pass.spans or (TrainSpan("", "", tuple(full_pass.examples[ANALYZED_SPLIT])),)
    cache = None if full_pass.cache is None else AnalyzerCache(full_pass.cache)
    function = PreprocessingFunction(
        full_pass.preprocessing.model_dump_json(),
        full_pass.schema.SerializeToString(),
        full_pass.temporary,
        full_pass.base_model,
    )
    graph, analysis = analyze_spans(pipeline, function, spans, cache, full_pass.graph, full_pass.rows[ANALYZED_SPLIT])
    if full_pass.transformed is not None:
        _transform(full_pass, pipeline, graph)
    else:
        _ = graph | "CheckIds" >> beam.Map(partial(id_sizes, full_pass.preprocessing))
    return analysis if cache else None


def transform(full_pass: FullPass, pipeline: beam.Pipeline) -> None:
    """Builds the Beam graph that applies an existing transform graph to every split."""
    _transform(full_pass, pipeline, pipeline | "Graph" >> beam.Create([full_pass.graph]))


def finish_full_pass(full_pass: FullPass) -> dict[str, int]:
    """Publishes the transformed shards, and returns the number of rows per split.

    Raises:
        RuntimeError: A split has fewer or more transformed rows than raw rows.
    """
    if full_pass.cache is not None:
        used = [span.fingerprint for span in full_pass.spans]
        AnalyzerCache(full_pass.cache).keep(used, others=len(used))
    raw = DatasetMetadata(full_pass.schema)
    write_metadata(raw, f"{full_pass.graph}/metadata")
    write_samples(full_pass.graph, full_pass.examples[SAMPLED_SPLIT])
    if full_pass.transformed is None:
        return {}
    rows = {split: _publish_split(full_pass, split) for split in full_pass.examples}
    fileio.rmtree(f"{full_pass.transformed}/{PENDING}")
    return rows


class _WriteRows(beam.DoFn):
    """Writes serialized examples with the C++ writer, one chunk per bundle, and their columns.

    The files of both are named by their first row, so files and their order do not depend on the speed of workers.
    """

    def __init__(self, full_pass: FullPass, split: str):
        self._folder = str(full_pass.transformed)
        self._pending = f"{self._folder}/{PENDING}/{split}"
        self._split = split
        self._layout = full_pass.layout

    def start_bundle(self) -> None:
        self._writer: ChunkWriter | None = None

    def process(self, rows: TransformedRows) -> Iterator[tuple[str, WrittenChunk]]:
        if self._writer is None:
            prefix = f"{rows.first_row:020d}" if rows.first_row >= 0 else uuid.uuid4().hex
            self._writer = ChunkWriter(self._folder, self._split, prefix, self._layout)
            self._columns = ColumnWriter(self._pending, prefix)
            self._column_layout = rows.layout
        for examples in rows.examples.chunks:
            self._writer.write(examples)
        if rows.columns is not None:
            self._columns.write(rows.columns)
        yield from ()

    def finish_bundle(self) -> Iterator[Any]:
        if self._writer is None:
            return
        self._writer.close()
        self._columns.close()
        bundle = {
            "chunks": [asdict(chunk) for chunk in self._writer.chunks],
            "columns": [asdict(file) for file in self._columns.files],
            "layout": None if self._column_layout is None else self._column_layout.to_json(),
        }
        with fileio.open(f"{self._pending}/{self._writer.prefix}.json", "w") as f:
            f.write(to_json_text(bundle))
        for chunk in self._writer.chunks:
            yield GlobalWindows.windowed_value((self._split, chunk))


def _transform(full_pass: FullPass, pipeline: beam.Pipeline, graph: beam.PCollection) -> None:
    schema, shared = full_pass.schema.SerializeToString(), Shared()
    written = []
    for split, files in full_pass.examples.items():
        size = batch_bytes_of(full_pass.preprocessing)
        note, rows = f"{split} transformed", full_pass.rows.get(split)
        read = ReadExamples(files, note, rows, size, dtypes_of(full_pass.schema))
        raw = pipeline | f"Raw[{split}]" >> read
        apply = ApplyGraph(full_pass.preprocessing, schema, split, shared)
        applied = raw | f"Transform[{split}]" >> beam.ParDo(apply, beam.pvalue.AsSingleton(graph))
        written.append(applied | f"Write[{split}]" >> beam.ParDo(_WriteRows(full_pass, split)))
    _ = written | "Written" >> beam.Flatten() | "Shards" >> JoinChunks(full_pass.layout)


def _publish_split(full_pass: FullPass, split: str) -> int:
    folder = f"{full_pass.transformed}/{PENDING}/{split}"
    bundles = [read_json(path) for path in sorted(fileio.glob(f"{glob.escape(folder)}/*.json"))]
    chunks = [WrittenChunk(**chunk) for bundle in bundles for chunk in bundle["chunks"]]
    rows = sum(chunk.rows for chunk in chunks)
    if rows != full_pass.rows[split]:
        raise RuntimeError(f"split {split!r}: {full_pass.rows[split]} raw rows became {rows} transformed rows")
    publish(str(full_pass.transformed), split, chunks, full_pass.layout)
    if bundles[0]["layout"] is not None:
        files = [ColumnFile(**file) for bundle in bundles for file in bundle["columns"]]
        publish_columns(str(full_pass.transformed), folder, split, blocks.Layout.from_json(bundles[0]["layout"]), files)
    return rows
