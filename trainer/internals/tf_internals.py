"""What the trainer uses of TensorFlow beyond its documented interface.

`tests/trainer/internals/test_tf_internals.py` fails first if another version differs.

* `GET_WORKERS`: TensorFlow waits forever for a dispatcher that is not there, or that has no worker.
* `saving`: TensorFlow traces a function again to save it, unless it was traced in the context of saving.
* `variable_key`: a warm start reads single weights of an export, whose Keras model cannot be loaded.
"""

from contextlib import AbstractContextManager

import tensorflow as tf
from tensorflow.python.saved_model import save_context

GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"
"""The remote procedure of a tf.data dispatcher that lists its workers; its answer is empty without any."""


def saving() -> AbstractContextManager[None]:
    """Returns the context in which `tf.saved_model.save` traces functions, with its usual options."""
    return save_context.save_context(tf.saved_model.SaveOptions())


def variable_key(path: str) -> str:
    """Returns the key of a variable in the checkpoint of a SavedModel, by its path from the exported module."""
    return f"{path}/.ATTRIBUTES/VARIABLE_VALUE"
