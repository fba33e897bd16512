"""What the trainer uses of TensorFlow beyond its documented interface.

`tests/trainer/internals/test_tf_internals.py` fails first if another version differs.

* `GET_WORKERS`: TensorFlow waits forever for a dispatcher that is not there, or that has no worker.
* `frozen`: formats other than the SavedModel hold variables as constants.
* `variable_key`: a warm start reads single weights of an export, whose Keras model cannot be loaded.
"""

from typing import Any

from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"
"""The remote procedure of a tf.data dispatcher that lists its workers; its answer is empty without any."""


def variable_key(path: str) -> str:
    """Returns the key of a variable in the checkpoint of a SavedModel, by its path from the exported module."""
    return f"{path}/.ATTRIBUTES/VARIABLE_VALUE"


def frozen(function: Any) -> Any:
    """Returns a concrete function with its variables as constants, and with all functions that it calls inlined."""
    return convert_variables_to_constants_v2(function)
