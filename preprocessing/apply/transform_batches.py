"""Transforms raw RecordBatches with a saved transform graph."""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public.tfxio import TensorAdapter, TensorAdapterConfig

from fullpass.preprocessing.apply.transform_graph import WRITTEN, Raw, TransformGraph
from fullpass.preprocessing.internals.tft_internals import make_tensor_to_arrow_converter


class BatchTransformer:
    """Applies a transform graph to RecordBatches; several threads may call it.

    It computes only the requested outputs: TF Transform's own `TransformDataset` computes all outputs and drops some.

    Args:
        adapter: Configuration that converts RecordBatches to tensors, from `traced_preprocessing.adapter_of`.

    Attributes:
        schema: Schema of the transformed batches.
        columns: Names of the raw columns that the outputs are computed from.
    """

    def __init__(self, output: tft.TFTransformOutput, adapter: TensorAdapterConfig, *, without: Collection[str] = ()):
        transformed = output.transformed_metadata.schema
        self.schema = schema_pb2.Schema()
        self.schema.CopyFrom(transformed)
        del self.schema.feature[:]
        self.schema.feature.extend(feature for feature in transformed.feature if feature.name not in without)
        self._adapter = TensorAdapter(adapter)
        folder = output.transform_savedmodel_dir
        graph = TransformGraph(folder, WRITTEN.pop(folder, None))
        part = graph.part(feature.name for feature in self.schema.feature)
        self.columns = part.columns
        specs = self._adapter.OriginalTypeSpecs()
        # An eager call of a pruned function formats all of its arguments as text before it runs.
        self._compute = tf.function(
            part.__call__, autograph=False, input_signature=[{name: specs[name] for name in part.columns}]
        )
        self._converter: Any = make_tensor_to_arrow_converter(self.schema)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the transformed batch: one list of values per cell."""
        return self.transform(self._adapter.ToBatchTensors(batch))

    def transform(self, raw: Raw) -> pa.RecordBatch:
        """Returns the transformed batch: one list of values per cell. raw: the raw columns, which include `columns`."""
        computed = self._compute({name: raw[name] for name in self.columns})
        return self._converter.convert({name: _as_written(value) for name, value in computed.items()})


def _as_written(value: tf.Tensor | tf.SparseTensor) -> tf.Tensor | tf.SparseTensor:
    """Returns an output in the dtype of TF Transform's schema: pixels as int64."""
    return tf.cast(value, tf.int64) if value.dtype == tf.uint8 else value
