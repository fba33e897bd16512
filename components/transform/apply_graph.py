"""Applies the transform graph to raw examples.

Transformed examples contain the features computed at `transform`, and the raw columns from which other features are
computed later. If there are no such raw columns, the features are also returned as columns.
"""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.components.transform.own_outputs import check_ids, id_sizes
from fullpass.components.transform.read_examples import parser_of
from fullpass.preprocessing.analysis.traced_preprocessing import adapter_of
from fullpass.preprocessing.apply.transform_batches import BatchTransformer
from fullpass.preprocessing.columns.compute_at import columns_for, raw_name, transformed_at
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import GlobalWindows, Shared, WindowedValue
from fullpass.preprocessing.values.byte_batches import cut_batch
from fullpass.trainer.records.blocks import Layout
from fullpass.trainer.records.columns import as_columns, layout_of_schema


@dataclass(frozen=True)
class TransformedRows:
    """Transformed rows in the order of the raw ones.

    Attributes:
        first_row: The row id of the first one, -1 for rows of another ExampleGen than Ingest.
        columns: The features of `layout`, in the form of `column_files.as_columns`; None if no columns are written.
    """

    first_row: int
    examples: pa.ChunkedArray
    columns: pa.RecordBatch | None
    layout: Layout | None


class ApplyGraph(beam.DoFn):
    """Transforms batches: (raw examples, folder of the transform graph) -> `TransformedRows`.

    A separate thread encodes a batch while the graph computes the next one; both run C++ code that releases the GIL.

    Args:
        split: The split of the examples; rows of train are transformed out of fold.
        shared: Holds the transformer, once in each process, for all splits and threads that get the same object: each
            would optimize the whole graph again.
    """

    def __init__(self, config: PreprocessingConfig, schema: bytes, split: str, shared: Shared):
        self._config = config
        self._schema = schema
        self._split = split
        self._shared = shared
        self._transformer: BatchTransformer | None = None

    def setup(self) -> None:
        self._encoding = ThreadPoolExecutor(1)

    def teardown(self) -> None:
        """Releases the graph: `Shared` keeps the object acquired last until the process ends: here, an empty set."""
        self._encoding.shutdown()
        self._transformer = None
        self._shared.acquire(frozenset, tag="released")

    def start_bundle(self) -> None:
        self._pending: Future[TransformedRows] | None = None

    def process(self, raw_examples: Any, graph: str) -> Iterator[TransformedRows]:
        if self._transformer is None:
            self._sizes = id_sizes(self._config, graph)
            self._transformer = self._start(graph)
        raw = self._parse(raw_examples)
        transformed = self._transformer.transform(raw)
        check_ids(transformed, self._sizes)
        written = _with_columns(transformed, {name: raw[name] for name in self._raw})
        before, self._pending = self._pending, self._encoding.submit(self._encode, transformed, written)
        if before is not None:
            yield before.result()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._pending is not None:
            yield GlobalWindows.windowed_value(self._pending.result())

    def _encode(self, transformed: pa.RecordBatch, written: pa.RecordBatch) -> TransformedRows:
        index = transformed.schema.get_field_index(ROW_ID)
        first_row = -1 if index < 0 else transformed.column(index).flatten()[0].as_py()
        columns = None if self._layout is None else as_columns(transformed, self._layout)
        return TransformedRows(first_row, examples_of(written, self._single), columns, self._layout)

    def _start(self, graph: str) -> BatchTransformer:
        transformer: BatchTransformer = self._shared.acquire(partial(self._load, graph), tag=graph)
        self._single = [f.name for f in transformer.schema.feature if f.HasField("shape") and not f.shape.dim]
        self._raw = sorted({*columns_for(self._config, "input"), *columns_for(self._config, "model")})
        self._layout = None if self._raw else layout_of_schema(transformer.schema)
        self._parse = parser_of(self._schema, {*transformer.columns, *self._raw}, self._split)
        return transformer

    def _load(self, graph: str) -> BatchTransformer:
        later = {name for stage in ("input", "model") for name in transformed_at(self._config, stage)}
        adapter = adapter_of(schema_pb2.Schema.FromString(self._schema))
        return BatchTransformer(tft.TFTransformOutput(graph), adapter, without=later)


def examples_of(batch: pa.RecordBatch, single: Collection[str] = ()) -> pa.ChunkedArray:
    """Returns a serialized tf.Example per row, binary in chunks of less than 2 GiB.

    Args:
        batch: Large lists of float32, int64 or binary.
        single: Names of columns whose lists have one value each; they are flattened, which is faster to encode.
    """
    encoded = []
    for part in cut_batch(batch, rows=batch.num_rows):
        columns = dict(zip(part.schema.names, part.columns, strict=True))
        encoded.append(encode_rows({n: c.flatten() if n in single else c for n, c in columns.items()}))
    return pa.chunked_array(encoded, pa.binary())


def _with_columns(transformed: pa.RecordBatch, raw: Mapping[str, tf.SparseTensor]) -> pa.RecordBatch:
    """Returns transformed features together with raw columns, which are named by `raw_name`."""
    if not raw:
        return transformed
    names = [*transformed.schema.names, *map(raw_name, raw)]
    return pa.RecordBatch.from_arrays([*transformed.columns, *map(_lists, raw.values())], names)


def _lists(column: tf.SparseTensor) -> pa.LargeListArray:
    """Returns the list of values of each row; null for a row without values."""
    lengths = np.bincount(column.indices.numpy()[:, 0], minlength=int(column.dense_shape[0]))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    missing = np.append(lengths == 0, False)
    values = pa.array(column.values.numpy(), pa.large_binary() if column.dtype == tf.string else None)
    return pa.LargeListArray.from_arrays(pa.array(starts, mask=missing if missing.any() else None), values)
