"""What `tfx_bsl_internals` promises of tfx_bsl: another version that differs fails here first, with a name."""

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.internals.tfx_bsl_internals import (
    ExamplesToRecordBatchDecoder,
    MisraGriesSketch,
    QuantilesSketch,
    SequenceExamplesToRecordBatchDecoder,
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
