"""What `tft_internals` promises of TF Transform: another version that differs fails here first, with a name."""

import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.internals import tft_internals
from fullpass.preprocessing.internals.tft_internals import analyzer_nodes, annotators, graph_tools, nodes

CACHEABLE = (
    "CacheableCombineAccumulate",
    "CacheableCombineMerge",
    "CacheableCombinePerKeyAccumulate",
    "CacheableCombinePerKeyFormatKeys",
    "CacheableCombinePerKeyMerge",
    "ExtractCombineMergeOutputs",
    "PTransform",
    "TensorSource",
    "VocabularyAccumulate",
    "VocabularyCount",
    "VocabularyMerge",
    "VocabularyOrderAndWrite",
    "VocabularyPrune",
)


@pytest.mark.parametrize("name", CACHEABLE)
def test_every_operation_of_an_analyzer_is_a_named_tuple_with_a_label(name):
    operation = getattr(analyzer_nodes, name)
    assert issubclass(operation, nodes.OperationDef)
    assert {"label"} <= set(operation._fields)
    assert callable(operation.get_field_str)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("CacheableCombineAccumulate", {"combiner"}),
        ("CacheableCombinePerKeyMerge", {"combiner"}),
        ("VocabularyAccumulate", {"input_dtype"}),
        ("VocabularyPrune", {"top_k", "frequency_threshold", "key_fn"}),
        ("VocabularyOrderAndWrite", {"vocab_filename", "store_frequency", "input_dtype", "fingerprint_shuffle"}),
        ("PTransform", {"ptransform"}),
        ("TensorSource", {"tensors"}),
    ],
)
def test_operations_hold_the_fields_that_the_analysis_reads(operation, fields):
    assert fields <= set(getattr(analyzer_nodes, operation)._fields)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (tft_internals.TFGraphContext.__init__, ["self", "module_to_export", "temp_dir", "evaluated_replacements"]),
        (tft_internals.get_structured_inputs, ["func_graph"]),
        (tft_internals.trace_and_update_module, ["module", "tf_function", "name", "strip_control_dependencies"]),
        (tft_internals.eager_asset_path, ["asset_filepath"]),
        (tft_internals.infer_feature_schema, ["features", "graph", "session"]),
        (tft_internals.write_metadata, ["metadata", "path"]),
        (tft_internals.combine, ["combiner", "tensor_inputs"]),
        (tft_internals.combine_per_key, ["combiner", "tensor_inputs"]),
        (tft_internals.min_and_max_per_key, ["x", "key"]),
        (tft_internals.set_domain, ["tensor", "min_value", "max_value"]),
        (tft_internals.inverse_tukey_hh, ["x", "hl", "hr"]),
        (
            graph_tools.InitializableGraphAnalyzer.__init__,
            ["self", "graph", "input_signature", "replaced_tensors_ready"],
        ),
    ],
    ids=lambda value: getattr(value, "__qualname__", None),
)
def test_functions_take_the_arguments_that_fullpass_passes(function, parameters):
    assert list(inspect.signature(function).parameters)[: len(parameters)] == parameters


def test_the_states_of_combiners_merge():
    moments = tft_internals.WeightedMeanAndVarCombiner(np.float64, ())
    parts = [moments.add_input(moments.create_accumulator(), (np.int64(2), mean, 1.0, 0.0)) for mean in (1.0, 3.0)]
    merged = moments.extract_output(moments.merge_accumulators([moments.create_accumulator(), *parts]))
    assert (float(merged[0]), float(merged[1])) == (2.0, 2.0)
    assert moments.accumulator_coder.__class__ is analyzer_nodes.JsonNumpyCacheCoder


def test_the_state_of_l_moments_is_a_named_tuple():
    assert tft_internals.LMomentsCombiner(np.float64, None).accumulator_class._fields


def test_principal_components_come_with_their_shape():
    combiner = tft_internals.PCACombiner((3, 2), 2, np.float64)
    (info,) = combiner.output_tensor_infos()
    assert (info.dtype, list(info.shape)) == (tf.float64, [3, 2])
    assert list(combiner._output_shape) == [3, 2]


def test_a_domain_is_declared_for_a_tensor_of_the_graph():
    with tf.Graph().as_default():
        ids, other = tf.constant([1, 2], tf.int64), tf.constant([3], tf.int64)
        tft_internals.set_domain(ids, tf.constant(0, tf.int64), tf.constant(7, tf.int64))
        low, high = tft_internals.declared_domain(ids)
        assert [tf.get_static_value(low), tf.get_static_value(high)] == [0, 7]
        assert tft_internals.declared_domain(other) is None


def test_one_trace_collects_the_analyzers_their_futures_and_asset_names(tmp_path):
    def function(inputs):
        tft.vocabulary(inputs["word"], vocab_filename="words")
        return {"x": inputs["x"] - tft.mean(inputs["x"])}

    specs = {"x": tf.TensorSpec([None], tf.float32), "word": tf.TensorSpec([None], tf.string)}
    tracker, module = annotators.ObjectTracker(), tf.Module()
    context = tft_internals.TFGraphContext(module_to_export=module, temp_dir=str(tmp_path), evaluated_replacements=None)
    with annotators.object_tracker_scope(tracker), context:
        graph = tf.function(function, input_signature=[specs], autograph=False).get_concrete_function().graph
    sinks = graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)
    assert [sink.is_asset_filepath for sink in sinks].count(True) == 1
    assert all(isinstance(sink.future, nodes.ValueNode) for sink in sinks)
    assert set(tft_internals.get_structured_inputs(graph)) == {"x", "word"}
    assert annotators.get_asset_annotations(graph) == {"words": "words"}
    ready = [(tft_internals.hashable_tensor_or_op(sink.tensor), False) for sink in sinks]
    inputs = tft_internals.get_structured_inputs(graph)
    paths = graph_tools.InitializableGraphAnalyzer(
        graph, inputs, ready, graph_tools.describe_path_as_analyzer_cache_hash
    )
    assert paths.ready_to_run(inputs["x"])
    assert isinstance(paths.get_unique_path(inputs["x"]), bytes)


def test_an_empty_vocabulary_holds_the_token_that_no_text_is():
    from fullpass.preprocessing.apply.stable_ids import NO_TOKEN

    assert tft_internals.empty_vocabulary_value("string") == (1, NO_TOKEN)


def test_metadata_stands_where_the_transform_output_reads_it():
    assert tft_internals.METADATA_DIR_NAME == ".tft_metadata"
    assert tft.TFTransformOutput.TRANSFORM_FN_DIR == "transform_fn"
