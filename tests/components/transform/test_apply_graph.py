"""Transformed batches as tf.Examples, against the encoder of tfx_bsl."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from fullpass.components.transform.apply_graph import examples_of
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES

KINDS = {"number": pa.float32(), "id": pa.int64(), "text": pa.large_binary()}
BATCH = {
    "number": [[1.5], [float("nan")], [-0.0]],
    "numbers": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "id": [[0], [-1], [2**63 - 1]],
    "ids": [[], [127, 128], [1]],
    "text": [[b""], [b"\xff"], [b"x" * 200]],
    "texts": [[], [b"", b"a"], [b"b"]],
}


def batch_of(columns):
    kinds = {name: KINDS[name.removesuffix("s")] for name in columns}
    arrays = [pa.array(values, pa.large_list(kinds[name])) for name, values in columns.items()]
    return pa.record_batch(arrays, names=list(columns))


def messages(records):
    """Returns examples as text, so that NaN compares equal to NaN."""
    return [str(tf.train.Example.FromString(record)) for record in records]


@pytest.mark.parametrize("single", [(), ("number", "id", "text")])
def test_the_examples_of_tfx_bsl(single):
    batch = batch_of(BATCH)
    expected = messages(RecordBatchToExamplesEncoder().encode(batch))
    assert messages(examples_of(batch, single).to_pylist()) == expected
    assert messages(examples_of(batch.slice(1), single).to_pylist()) == expected[1:]


def test_the_same_rows_give_the_same_bytes():
    batch = batch_of(BATCH)
    assert examples_of(batch).to_pylist() == [examples_of(batch.slice(row, 1))[0].as_py() for row in range(3)]


@pytest.mark.integration
def test_a_batch_of_several_pieces_is_whole():
    rows, size = 5, BATCH_BYTES // 2
    values = np.arange(rows * size // 8, dtype=np.int64) % 1000
    offsets = pa.array(np.arange(rows + 1) * (size // 8), pa.int64())
    batch = pa.record_batch([pa.LargeListArray.from_arrays(offsets, values)], names=["pixels"])
    records = examples_of(batch).to_pylist()
    found = [tf.train.Example.FromString(record).features.feature["pixels"] for record in records]
    np.testing.assert_array_equal(np.concatenate([feature.int64_list.value for feature in found]), values)
