"""What `tfx_bsl_internals` promises of tfx_bsl: another version that differs fails here first, with a name."""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from apache_beam.testing.util import assert_that
from tfx_bsl.public.beam import RunInference
from tfx_bsl.public.proto import model_spec_pb2

from fullpass.preprocessing.internals.tfx_bsl_internals import (
    ExamplesToRecordBatchDecoder,
    MisraGriesSketch,
    QuantilesSketch,
    SequenceExamplesToRecordBatchDecoder,
    let_bulk_inferrer_take_texts,
)

EXAMPLE = tf.train.Example(features=tf.train.Features(feature={"x": tf.train.Feature(int64_list={"value": [7]})}))


def test_records_without_a_schema_become_lists_per_column():
    batch = ExamplesToRecordBatchDecoder().DecodeBatch([EXAMPLE.SerializeToString(), b""])
    assert batch.to_pydict() == {"x": [[7], None]}


def test_the_feature_lists_of_sequence_examples_become_one_struct():
    steps = tf.train.FeatureList(feature=[tf.train.Feature(int64_list={"value": [n]}) for n in (1, 2)])
    record = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"s": steps}))
    batch = SequenceExamplesToRecordBatchDecoder(b"lists").DecodeBatch([record.SerializeToString()])
    assert batch.to_pydict() == {"lists": [{"s": [[1], [2]]}]}


def test_a_quantiles_sketch_is_restored_from_its_bytes():
    sketch = QuantilesSketch(0.01, 1 << 20, 1)
    sketch.AddValues(pa.array(np.arange(1000.0)))
    state = sketch.__getstate__()
    restored = QuantilesSketch.__new__(QuantilesSketch)
    restored.__setstate__(state)
    assert isinstance(state, bytes)
    assert restored.GetQuantiles(4).to_pylist() == sketch.GetQuantiles(4).to_pylist()


def test_a_sketch_of_tokens_counts_the_most_frequent_ones():
    sketch = MisraGriesSketch(8)
    sketch.AddValues(pa.array([b"a", b"b", b"a"]))
    assert sorted(sketch.Estimate().to_pylist(), key=str) == [
        {"values": b"a", "counts": 2.0},
        {"values": b"b", "counts": 1.0},
    ]


class _Lengths(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
        return {"text": tf.strings.as_string(tf.strings.length(examples)), "length": tf.strings.length(examples)}


@pytest.mark.integration
def test_bulk_inferrer_predicts_texts(tmp_path):
    module = _Lengths()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    rows = [
        tf.train.Example(features=tf.train.Features(feature={"x": _ints(count)})).SerializeToString()
        for count in ([1], [1, 2, 3])
    ]
    let_bulk_inferrer_take_texts("tfx.components.trainer.executor.GenericExecutor")
    for _ in range(2):
        let_bulk_inferrer_take_texts("tfx.components.bulk_inferrer.executor.Executor")
    spec = model_spec_pb2.InferenceSpecType(saved_model_spec=model_spec_pb2.SavedModelSpec(model_path=str(tmp_path)))

    def right(logs):
        found = {}
        for log in logs:
            outputs = {name: tf.make_ndarray(one) for name, one in log.predict_log.response.outputs.items()}
            [row] = log.predict_log.request.inputs["examples"].string_val
            found[row] = (outputs["text"].tolist(), outputs["length"].tolist())
        assert found == {row: ([str(len(row)).encode()], [len(row)]) for row in rows}

    with beam.Pipeline(runner="DirectRunner") as pipeline:
        assert_that(pipeline | beam.Create(rows) | RunInference(spec), right)


def _ints(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.array(values)))
