"""The full pass on Beam: read records in C++ batches, analyse train, transform and write every split.

One Beam element is a file, then a RecordBatch; never an example. Reading (`ReadExamples`), analysis (TF Transform)
and writing (`WriteExamples`) are separate, so that each can be made faster on its own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from apache_beam.transforms.window import GlobalWindows
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io
from tfx.dsl.io import fileio
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.public.tfxio import TFXIO, TensorAdapterConfig
from tfx_bsl.tfxio.tf_example_record import TFExampleBeamRecord

from components.ingest.shards import Layout, Piece
from components.ingest.write import PENDING, JoinPieces, PieceWriter, publish
from components.transform.analysis import Analysis
from components.transform.analyze import TrainSpan, analyze
from components.transform.analyzer_cache import AnalyzerCache
from components.transform.apply_graph import ApplyGraph
from preprocessing.config import PreprocessingConfig
from preprocessing.preprocessing_fn import preprocessing_fn
from preprocessing.progress import report
from preprocessing.stable_ids import Continued
from trainer.samples import write_samples

ANALYZED_SPLIT = "train"
SAMPLED_SPLIT = "eval"
_BATCH_ROWS = 2048


@dataclass(frozen=True)
class FullPass:
    """What one Transform execution does.

    examples: raw TFRecord files per split. schema: of the raw examples. graph: folder of the transform graph.
    transformed: folder for transformed examples, or None to write only the graph. rows: raw rows per split. layout: of
    the transformed examples. spans: the train split of each span, where a cache of what analyzers made of it is kept.
    cache: its folder. continued: what vocabularies with stable ids go on from.
    """

    preprocessing: PreprocessingConfig
    schema: schema_pb2.Schema
    examples: Mapping[str, Sequence[str]]
    rows: Mapping[str, int]
    graph: str
    transformed: str | None
    layout: Layout
    temporary: str
    spans: tuple[TrainSpan, ...] = ()
    cache: str | None = None
    continued: Continued = Continued()


def run(full_pass: FullPass, pipeline: beam.Pipeline) -> Analysis | None:
    """Builds the Beam graph: statistics come from the train split only.

    Returns:
        Where the statistics of each span come from; None if there are no spans.
    """
    adapter = _tfxio(full_pass.schema).TensorAdapterConfig()
    with tft_beam.Context(temp_dir=full_pass.temporary):
        transform_fn, analysis = _analyze(full_pass, pipeline, adapter)
        _ = transform_fn | "WriteGraph" >> tft_beam.WriteTransformFn(full_pass.graph)
        if full_pass.transformed is not None:
            _transform(full_pass, pipeline, transform_fn)
    return analysis


def _analyze(full_pass: FullPass, pipeline: beam.Pipeline, adapter: TensorAdapterConfig) -> tuple[Any, Analysis | None]:
    function = _function(full_pass)
    if full_pass.cache is None:
        train = pipeline | "Train" >> ReadExamples(full_pass, ANALYZED_SPLIT, "analysed")
        return (train, adapter) | "Analyze" >> tft_beam.AnalyzeDataset(function), None

    def read(files: Sequence[str], label: str) -> beam.PTransform:
        return f"Train[{label}]" >> ReadExamples(full_pass, ANALYZED_SPLIT, f"{label} analysed", files=files)

    return analyze(pipeline, function, adapter, full_pass.spans, AnalyzerCache(full_pass.cache), read)


def transform(full_pass: FullPass, pipeline: beam.Pipeline) -> None:
    """Builds the Beam graph that applies a transform graph that is there already to every split."""
    _transform(full_pass, pipeline, pipeline | "ReadGraph" >> tft_beam.ReadTransformFn(full_pass.graph))


def finish(full_pass: FullPass) -> dict[str, int]:
    """Publishes the transformed shards and returns rows per split.

    Raises:
        RuntimeError: A split has fewer or more transformed rows than raw ones.
    """
    if full_pass.cache is not None:
        used = [span.fingerprint for span in full_pass.spans]
        AnalyzerCache(full_pass.cache).keep(used, others=len(used))
    raw = dataset_metadata.DatasetMetadata(full_pass.schema)
    metadata_io.write_metadata(raw, f"{full_pass.graph}/metadata")
    write_samples(full_pass.graph, full_pass.examples[SAMPLED_SPLIT])
    if full_pass.transformed is None:
        return {}
    rows = {split: _publish_split(full_pass, split) for split in full_pass.examples}
    fileio.rmtree(f"{full_pass.transformed}/{PENDING}")
    return rows


class ReadExamples(beam.PTransform):
    """TFRecord files of one split -> RecordBatches in the layout of the schema."""

    def __init__(self, full_pass: FullPass, split: str, verb: str, *, files: Sequence[str] | None = None):
        super().__init__()
        self._paths = list(full_pass.examples[split] if files is None else files)
        self._schema = full_pass.schema.SerializeToString()
        self._note = f"{split} {verb}"
        self._rows = full_pass.rows.get(split) if files is None else None

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """See base class."""
        read = beam.ParDo(_ReadFile(self._schema, self._note, self._rows))
        return pipeline | "Files" >> beam.Create(self._paths) | "Read" >> read.with_output_types(pa.RecordBatch)


class _ReadFile(beam.DoFn):
    def __init__(self, schema: bytes, note: str, rows: int | None):
        self._schema = schema
        self._note = note
        self._rows = rows
        self._done = 0

    def setup(self) -> None:
        self._decoder = ExamplesToRecordBatchDecoder(self._schema)

    def process(self, path: str) -> Iterator[pa.RecordBatch]:
        compression = "GZIP" if path.endswith(".gz") else ""
        records = tf.data.TFRecordDataset(path, compression_type=compression, buffer_size=8 << 20)
        for batch in records.batch(_BATCH_ROWS).prefetch(2).as_numpy_iterator():
            yield self._decoder.DecodeBatch(list(batch))
            self._done += len(batch)
            report(self._done, self._rows, "rows", self._note)


class _WriteExamples(beam.DoFn):
    """Writes serialized examples with the C++ writer, one piece per bundle.

    Pieces are named by their first row, so that files and order do not depend on which worker was faster.
    """

    def __init__(self, full_pass: FullPass, split: str):
        self._folder = str(full_pass.transformed)
        self._split = split
        self._layout = full_pass.layout

    def start_bundle(self) -> None:
        self._writer: PieceWriter | None = None

    def process(self, element: tuple[int, list[bytes]]) -> Iterator[tuple[str, Piece]]:
        first_row, examples = element
        if self._writer is None:
            self._writer = PieceWriter(self._folder, self._split, f"{first_row:020d}", self._layout)
        self._writer.write(examples)
        yield from ()

    def finish_bundle(self) -> Iterator[Any]:
        if self._writer is None:
            return
        self._writer.close()
        path = f"{self._folder}/{PENDING}/{self._split}/{self._writer.prefix}.json"
        with fileio.open(path, "w") as f:
            f.write(json.dumps([asdict(piece) for piece in self._writer.pieces]))
        for piece in self._writer.pieces:
            yield GlobalWindows.windowed_value((self._split, piece))


def _transform(full_pass: FullPass, pipeline: beam.Pipeline, transform_fn: tuple[beam.PCollection, Any]) -> None:
    graph, metadata = transform_fn
    final = getattr(metadata, "deferred_metadata", None)
    known = metadata if final is None else beam.pvalue.AsSingleton(final)
    apply = ApplyGraph(full_pass.preprocessing, _tfxio(full_pass.schema).TensorAdapterConfig())
    for split in full_pass.examples:
        raw = pipeline | f"Raw[{split}]" >> ReadExamples(full_pass, split, "transformed")
        applied = raw | f"Transform[{split}]" >> beam.ParDo(apply, beam.pvalue.AsSingleton(graph), known)
        pieces = applied | f"Write[{split}]" >> beam.ParDo(_WriteExamples(full_pass, split))
        _ = pieces | f"Shards[{split}]" >> JoinPieces(full_pass.layout)


def _publish_split(full_pass: FullPass, split: str) -> int:
    folder = f"{full_pass.transformed}/{PENDING}/{split}"
    bundles = [_read_json(path) for path in sorted(fileio.glob(f"{folder}/*.json"))]
    pieces = [Piece(**piece) for bundle in bundles for piece in bundle]
    rows = sum(piece.rows for piece in pieces)
    if rows != full_pass.rows[split]:
        raise RuntimeError(f"split {split!r}: {full_pass.rows[split]} raw rows became {rows} transformed rows")
    publish(str(full_pass.transformed), split, pieces, full_pass.layout)
    return rows


def _function(full_pass: FullPass) -> Any:
    custom_config = {
        "preprocessing": full_pass.preprocessing.model_dump(mode="json"),
        "continued": asdict(full_pass.continued),
    }
    return lambda inputs: preprocessing_fn(inputs, custom_config)


def _tfxio(schema: schema_pb2.Schema) -> TFXIO:
    return TFExampleBeamRecord(physical_format="tfrecord", telemetry_descriptors=["Fullpass"], schema=schema)


def _read_json(path: str) -> list[dict[str, Any]]:
    with fileio.open(path, "r") as f:
        return json.loads(f.read())
