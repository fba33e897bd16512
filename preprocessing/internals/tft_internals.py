"""What Fullpass uses of TF Transform beyond its documented interface.

The code of all of it is the same in TF Transform 1.16 and 1.21, except for two helpers that only these modules call.
`tests/preprocessing/internals/test_tft_internals.py` fails first if another version differs.

* `analyzer_nodes`, `nodes`: analyzers as a graph of operations, which `analysis/` computes per file and caches per
  span. TF Transform computes them with Beam only, in hundreds of stages.
* `TFGraphContext`, `get_structured_inputs`, `annotators`: one trace serves the whole
  analysis. TF Transform traces six or seven times.
* `graph_tools`, `hashable_tensor_or_op`: the paths in a graph, from which TF Transform too makes its cache keys.
* `trace_and_update_module`, `infer_feature_schema`, `DatasetMetadata`, `write_metadata`, `METADATA_DIR_NAME`: write the
  graph of an analysis as TF Transform does, for `TFTransformOutput` to read.
* `make_tensor_to_arrow_converter`: transformed tensors to RecordBatches as in `TransformDataset`, which cannot compute
  only some of the outputs.
* `QuantilesCombiner`, `LMomentsCombiner`, `empty_vocabulary_value`: encode the states of these analyzers for the cache,
  and write an empty vocabulary.
* `PCACombiner`, `WeightedMeanAndVarCombiner`, `combine`, `combine_per_key`, `min_and_max_per_key`: the public analyzers
  per key exist only inside mappers, and lose the spread of large values.
* `inverse_tukey_hh`: applies the fit of `tft.tukey_h_params` to a second tensor.
* `set_domain`, `declared_domain`: the range of ids in the transformed schema, which only TF Transform's mappers set.
* `eager_asset_path`: the path of an analyzer's file as a table needs it, which lives outside of the traced graph.
* `PTransformAnalyzer`: a Beam transform as an analyzer. Public, but experimental.

Nothing here is known to become public up to TF Transform 1.21.
"""

import tensorflow as tf
from tensorflow_transform import analyzer_nodes as analyzer_nodes
from tensorflow_transform import (
    analyzers,
    gaussianization,
    graph_context,
    impl_helper,
    schema_inference,
    tf2_utils,
    tf_utils,
)
from tensorflow_transform import annotators as annotators
from tensorflow_transform import graph_tools as graph_tools
from tensorflow_transform import nodes as nodes
from tensorflow_transform.beam import experimental
from tensorflow_transform.saved import saved_transform_io_v2
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io

DatasetMetadata = dataset_metadata.DatasetMetadata
METADATA_DIR_NAME = impl_helper.METADATA_DIR_NAME
PTransformAnalyzer = experimental.PTransformAnalyzer
TFGraphContext = graph_context.TFGraphContext
LMomentsCombiner = analyzers._LMomentsCombiner
PCACombiner = analyzers.PCACombiner
QuantilesCombiner = analyzers.QuantilesCombiner
WeightedMeanAndVarCombiner = analyzers.WeightedMeanAndVarCombiner
combine = analyzers._apply_cacheable_combiner
combine_per_key = analyzers._apply_cacheable_combiner_per_key
min_and_max_per_key = analyzers._min_and_max_per_key
empty_vocabulary_value = analyzers.get_empy_vocabulary_dummy_value
hashable_tensor_or_op = tf_utils.hashable_tensor_or_op
get_structured_inputs = tf2_utils.get_structured_inputs_from_func_graph
infer_feature_schema = schema_inference.infer_feature_schema
inverse_tukey_hh = gaussianization.inverse_tukey_hh
eager_asset_path = tf_utils._get_asset_analyzer_output_and_control_dependency
make_tensor_to_arrow_converter = impl_helper.make_tensor_to_arrow_converter
set_domain = schema_inference.set_tensor_schema_override
trace_and_update_module = saved_transform_io_v2.trace_and_update_module
write_metadata = metadata_io.write_metadata


def declared_domain(ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Returns the least and the greatest id that the graph declares for a tensor, int64 []; None if it has none."""
    keys = ("tft_schema_override_tensor", "tft_schema_override_min", "tft_schema_override_max")
    for tensor, low, high in zip(*map(tf.compat.v1.get_collection, keys), strict=True):
        if tensor is ids:
            return tf.cast(low, tf.int64), tf.cast(high, tf.int64)
    return None
