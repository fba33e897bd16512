"""What `tfx_bsl_internals` changes in BulkInferrer: without it, a signature that returns texts ends the node."""

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.testing.util import assert_that
from tfx_bsl.public.beam import RunInference
from tfx_bsl.public.proto import model_spec_pb2

from fullpass.components.internals.tfx_bsl_internals import let_bulk_inferrer_take_texts

pytestmark = pytest.mark.integration


class _Lengths(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
        return {"text": tf.strings.as_string(tf.strings.length(examples)), "length": tf.strings.length(examples)}


def test_bulk_inferrer_predicts_texts(tmp_path):
    module = _Lengths()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve})
    rows = [
        tf.train.Example(features=tf.train.Features(feature={"x": _ints(count)})).SerializeToString()
        for count in ([1], [1, 2, 3])
    ]
    let_bulk_inferrer_take_texts()
    let_bulk_inferrer_take_texts()
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
