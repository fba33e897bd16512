"""Raw RecordBatches -> transformed RecordBatches, through a saved transform graph."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import impl_helper
from tfx_bsl.public.tfxio import TensorAdapter, TensorAdapterConfig

from fullpass.preprocessing.apply.transform_graph import GraphPart, TransformGraph


def load_part(directory: str, names: Sequence[str]) -> GraphPart:
    """Returns the part of a saved graph that computes `names`."""
    return TransformGraph(directory).part(names)


class BatchTransformer:
    """Applies a transform graph to RecordBatches.

    It computes the outputs asked for, and no more: TF Transform's own `TransformDataset` computes all and drops some.

    Args:
        output: the transform graph.
        adapter: how RecordBatches become tensors, from `traced_preprocessing.adapter_of`.
        without: names of outputs that are not computed.
        load: loads the part of the graph; a Beam worker shares it between its threads.

    Attributes:
        schema: of the transformed batches.
    """

    def __init__(
        self,
        output: tft.TFTransformOutput,
        adapter: TensorAdapterConfig,
        *,
        without: Collection[str] = (),
        load: Callable[[str, Sequence[str]], GraphPart] = load_part,
    ):
        transformed = output.transformed_metadata.schema
        self.schema = schema_pb2.Schema()
        self.schema.CopyFrom(transformed)
        del self.schema.feature[:]
        self.schema.feature.extend(feature for feature in transformed.feature if feature.name not in without)
        self._adapter = TensorAdapter(adapter)
        self._part = load(output.transform_savedmodel_dir, [feature.name for feature in self.schema.feature])
        self._converter: Any = impl_helper.make_tensor_to_arrow_converter(self.schema)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns a batch transformed: one list of values per cell."""
        made = self._part(self._adapter.ToBatchTensors(batch))
        return self._converter.convert({name: _as_written(value) for name, value in made.items()})


def _as_written(value: tf.Tensor | tf.SparseTensor) -> tf.Tensor | tf.SparseTensor:
    """Returns an output as TF Transform's schema has it: pixels as int64."""
    return tf.cast(value, tf.int64) if value.dtype == tf.uint8 else value
