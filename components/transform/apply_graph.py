"""Raw RecordBatches to serialized transformed examples: the features whose place is transform, and the raw columns that
the others are computed of later.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow_transform as tft
from apache_beam.utils.shared import Shared
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
from tfx_bsl.public.tfxio import TensorAdapter, TensorAdapterConfig

from preprocessing.config import PreprocessingConfig
from preprocessing.outputs import ROW_ID
from preprocessing.places import columns_for, raw_name, transformed_at
from preprocessing.schema import raw_schema
from preprocessing.transform_graph import Part, TransformGraph


class ApplyGraph(beam.DoFn):
    """(raw RecordBatch, folder of the transform graph) -> (id of the first row, serialized examples).

    Applies the part of the graph that transformed examples need, and no more: TF Transform's own `TransformDataset`
    computes every output and drops some.
    """

    def __init__(self, config: PreprocessingConfig, adapter: TensorAdapterConfig):
        self._config = config
        self._adapter_config = adapter
        self._shared = Shared()
        self._part: Part | None = None

    def setup(self) -> None:
        """See base class."""
        self._adapter = TensorAdapter(self._adapter_config)

    def teardown(self) -> None:
        """See base class. What is acquired last lives as long as the process, so that is nothing."""
        self._part = None
        self._shared.acquire(frozenset, tag="released")

    def process(self, batch: pa.RecordBatch, graph: str) -> Iterator[tuple[int, list[bytes]]]:
        """See base class."""
        if self._part is None:
            self._start(tft.TFTransformOutput(graph))
        made = self._part(self._adapter.ToBatchTensors(batch))  # type: ignore[misc]
        transformed = self._converter.convert(made)
        first_row = transformed.column(transformed.schema.get_field_index(ROW_ID)).flatten()[0].as_py()
        yield first_row, self._encoder.encode(_with_columns(transformed, batch, self._raw))

    def _start(self, output: tft.TFTransformOutput) -> None:
        transformed, graph = output.transformed_metadata.schema, output.transform_savedmodel_dir
        later = {name for place in ("input", "model") for name in transformed_at(self._config, place)}
        schema = schema_pb2.Schema()
        schema.CopyFrom(transformed)
        del schema.feature[:]
        schema.feature.extend(feature for feature in transformed.feature if feature.name not in later)
        names = [feature.name for feature in schema.feature]
        # One graph for all threads of a process.
        self._part = self._shared.acquire(lambda: TransformGraph(graph).part(names), tag=graph)
        self._converter: Any = impl_helper.make_tensor_to_arrow_converter(schema)
        self._raw = sorted({*columns_for(self._config, "input"), *columns_for(self._config, "model")})
        for feature in raw_schema(self._config).feature:
            if feature.name in self._raw:
                schema.feature.add().CopyFrom(feature)
                schema.feature[-1].name = raw_name(feature.name)
        self._encoder = RecordBatchToExamplesEncoder(schema)


def _with_columns(transformed: pa.RecordBatch, raw: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """Returns transformed features with raw columns beside them, by their `raw_name`."""
    if not columns:
        return transformed
    kept = [raw.column(raw.schema.get_field_index(name)) for name in columns]
    names = [*transformed.schema.names, *map(raw_name, columns)]
    return pa.RecordBatch.from_arrays([*transformed.columns, *kept], names)
