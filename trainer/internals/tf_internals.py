"""What the trainer uses of TensorFlow beyond its documented interface.

`tests/trainer/internals/test_tf_internals.py` fails first if another version differs.

* `GET_WORKERS`: TensorFlow waits forever for a dispatcher that is not there, or that has no worker.
* `variable_key`: a warm start reads single weights of an export, whose Keras model cannot be loaded.
"""

GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"
"""The remote procedure of a tf.data dispatcher that lists its workers; its answer is empty without any."""


def variable_key(path: str) -> str:
    """Returns the key of a variable in the checkpoint of a SavedModel, by its path from the exported module."""
    return f"{path}/.ATTRIBUTES/VARIABLE_VALUE"
