"""What `tf_internals` of the trainer promises of TensorFlow: another version that differs fails here first."""

from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.internals.tf_internals import GET_WORKERS, variable_key

pytestmark = pytest.mark.integration


def test_a_dispatcher_lists_its_workers():
    servers = tf.data.experimental.service
    dispatcher = servers.DispatchServer(servers.DispatcherConfig(port=0))
    address = dispatcher.target.removeprefix("grpc://")

    def answer() -> bytes:
        with grpc.insecure_channel(address) as channel:
            listed = channel.unary_unary(GET_WORKERS, request_serializer=bytes, response_deserializer=bytes)
            return listed(b"", timeout=20)

    assert answer() == b""
    worker = servers.WorkerServer(servers.WorkerConfig(address))
    assert worker._address.encode() in answer()


def test_a_variable_of_an_export_is_found_by_its_path(tmp_path: Path):
    module = tf.Module()
    module.weights = [tf.Variable([1.0, 2.0]), tf.Variable([3.0])]
    tf.saved_model.save(module, str(tmp_path))
    stored = tf.train.load_checkpoint(str(tmp_path / "variables" / "variables"))
    np.testing.assert_array_equal(stored.get_tensor(variable_key("weights/1")), [3.0])
