"""Spans that were analysed before are not read again: every analyzer of ours can be cached."""

import os
import subprocess
import sys

import pytest

TRACE = """
import hashlib
import tensorflow as tf
from preprocessing.column_tensors import Columns, raw_feature_spec
from preprocessing.config import PreprocessingConfig

names = [f"n{i}" for i in range(12)]
config = PreprocessingConfig.model_validate({
    "derive": {f"sum{i}": f"{one} + {other} * 60" for i, (one, other) in enumerate(zip(names, names[1:]))},
    "features": {f"sum{i}": {"type": "number"} for i in range(len(names) - 1)},
    "label": {"name": "y", "task": "regression"},
})
with tf.Graph().as_default() as graph:
    spec = raw_feature_spec(config, serving=False)
    Columns({name: tf.compat.v1.sparse_placeholder(column.dtype, name=name) for name, column in spec.items()}, config)
print(hashlib.sha256(graph.as_graph_def().SerializeToString(deterministic=True)).hexdigest())
"""


@pytest.mark.integration
def test_every_process_traces_the_same_graph():
    """The keys of the cache are made of the graph, so an order that hashing decides would lose what is known."""
    digests = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", TRACE], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        digests.add(done.stdout.split()[-1])
    assert len(digests) == 1


@pytest.mark.integration
def test_cached_spans_need_not_be_read(tmp_path, record_batch):
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.beam import analysis_graph_builder, analyzer_cache
    from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

    from preprocessing.column_tensors import raw_feature_spec
    from preprocessing.config import PreprocessingConfig
    from preprocessing.preprocessing_fn import preprocessing_fn

    config = PreprocessingConfig.model_validate(
        {
            "features": {
                "c": {"type": "category", "vocabulary": {"coverage": 0.6}},
                "x": {"type": "number", "missing": "median", "transforms": ["log1p", "z_score"]},
                "k": {"type": "number", "column": "x", "transforms": [{"min_max": {"key": "c"}}]},
            },
            "label": {"name": "y", "task": "regression"},
        }
    )
    spec = raw_feature_spec(config, serving=False)
    types = {name: tf.SparseTensorSpec([None, None], feature.dtype) for name, feature in spec.items()}
    spans = {
        analyzer_cache.DatasetKey("1"): record_batch(spec, {"c": ["a", "a", "b", None], "x": [1, 2, 3, None]}),
        analyzer_cache.DatasetKey("2"): record_batch(spec, {"c": ["b", "b", "c"], "x": [4, 5, 6]}),
    }
    schema = tft.DatasetMetadata.from_feature_spec(spec).schema
    tensors = tensor_adapter.TensorAdapterConfig(
        next(iter(spans.values())).schema, tensor_representation_util.InferTensorRepresentationsFromSchema(schema)
    )

    def function(inputs):
        return preprocessing_fn(inputs, {"preprocessing": config.model_dump(mode="json")})

    def analyse(known, directory):
        """Analyses both spans, those in `known` from the cache, and returns which had to be read."""
        with beam.Pipeline() as pipeline, tft_beam.Context(temp_dir=str(tmp_path / "temporary")):
            read = pipeline | analyzer_cache.ReadAnalysisCacheFromFS(str(tmp_path / "cache"), known) if known else {}
            keys = analysis_graph_builder.get_analysis_dataset_keys(function, types, list(spans), read, False)
            data = {
                key: pipeline | f"Span{key.key}" >> beam.Create([batch]) if key in keys else None
                for key, batch in spans.items()
            }
            graph, made = (data, read, tensors) | tft_beam.AnalyzeDatasetWithCache(function)
            _ = graph | tft_beam.WriteTransformFn(str(directory))
            made | analyzer_cache.WriteAnalysisCacheToFS(pipeline, str(tmp_path / "cache"))
        return {key.key for key in keys}

    assert analyse([], tmp_path / "first") == {"1", "2"}
    assert analyse(list(spans), tmp_path / "second") == set()
    output = tft.TFTransformOutput(str(tmp_path / "second"))
    assert output.vocabulary_by_name("vocabulary_c") == [b"b", b"a"]  # Five of six values.
