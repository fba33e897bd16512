"""Raw RecordBatches to serialized transformed examples: the features computed at `transform`, and the raw columns from
which the others are computed later.
"""

from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform as tft
from apache_beam.utils.shared import Shared
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
from tfx_bsl.public.tfxio import TensorAdapterConfig

from fullpass.preprocessing.apply.transform_batches import BatchTransformer, load_part
from fullpass.preprocessing.apply.transform_graph import GraphPart
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.compute_at import columns_for, raw_name, transformed_at
from fullpass.preprocessing.features.outputs import ROW_ID
from fullpass.preprocessing.features.raw_schema import raw_schema


class ApplyGraph(beam.DoFn):
    """(raw RecordBatch, folder of the transform graph) -> (id of the first row, serialized examples)."""

    def __init__(self, config: PreprocessingConfig, adapter: TensorAdapterConfig):
        self._config = config
        self._adapter = adapter
        self._shared = Shared()
        self._transformer: BatchTransformer | None = None

    def teardown(self) -> None:
        """See base class. `Shared` keeps what is acquired last as long as the process lives, so that is nothing."""
        self._transformer = None
        self._shared.acquire(frozenset, tag="released")

    def process(self, batch: pa.RecordBatch, graph: str) -> Iterator[tuple[int, list[bytes]]]:
        """See base class."""
        if self._transformer is None:
            self._transformer = self._start(tft.TFTransformOutput(graph))
        transformed = self._transformer(batch)
        first_row = transformed.column(transformed.schema.get_field_index(ROW_ID)).flatten()[0].as_py()
        yield first_row, self._encoder.encode(_with_columns(transformed, batch, self._raw))

    def _start(self, output: tft.TFTransformOutput) -> BatchTransformer:
        later = {name for stage in ("input", "model") for name in transformed_at(self._config, stage)}
        transformer = BatchTransformer(output, self._adapter, without=later, load=self._load)
        schema = schema_pb2.Schema()
        schema.CopyFrom(transformer.schema)
        self._raw = sorted({*columns_for(self._config, "input"), *columns_for(self._config, "model")})
        for feature in raw_schema(self._config).feature:
            if feature.name in self._raw:
                schema.feature.add().CopyFrom(feature)
                schema.feature[-1].name = raw_name(feature.name)
        self._encoder = RecordBatchToExamplesEncoder(schema)
        return transformer

    def _load(self, directory: str, names: Sequence[str]) -> GraphPart:
        """Returns the part of the graph, one for all threads of a process."""
        return self._shared.acquire(lambda: load_part(directory, names), tag=directory)


def _with_columns(transformed: pa.RecordBatch, raw: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """Returns transformed features with raw columns beside them, by their `raw_name`."""
    if not columns:
        return transformed
    kept = [raw.column(raw.schema.get_field_index(name)) for name in columns]
    names = [*transformed.schema.names, *map(raw_name, columns)]
    return pa.RecordBatch.from_arrays([*transformed.columns, *kept], names)
