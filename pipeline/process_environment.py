"""The process environment of every command: decided here, once, before TensorFlow, TFX or Beam are imported."""

import os

SAFE_PATH = "PYTHONSAFEPATH"
# Keras 3 for models; TensorFlow Transform would otherwise choose Keras 2 for the whole process.
# Processes that Beam and others start by `python -m` do not search the working folder, where the user's files lie.
_REQUIRED = {"TF_USE_LEGACY_KERAS": "0", SAFE_PATH: "1"}
# What a user need not read: start-up notes of TensorFlow, gRPC and absl. Set by the user, these stay as they are.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR", "ABSL_MIN_LOG_LEVEL": "2"}


def set_environment() -> None:
    """Sets the variables; processes started from here inherit them."""
    os.environ.update(_REQUIRED)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
