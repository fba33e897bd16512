"""Sets the process environment of every command, once, before TensorFlow, TFX or Beam are imported."""

import os

SAFE_PATH = "PYTHONSAFEPATH"
# Keras 3 for models; TensorFlow Transform would otherwise choose Keras 2 for the whole process.
# With PYTHONSAFEPATH, processes that Beam and others start by `python -m` do not search the working folder, which
# holds the user's files.
_REQUIRED = {"TF_USE_LEGACY_KERAS": "0", SAFE_PATH: "1"}
# These variables silence start-up messages of TensorFlow, gRPC and absl. Values set by the user are kept.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR", "ABSL_MIN_LOG_LEVEL": "2"}


def set_environment() -> None:
    """Sets the variables; processes started from here inherit them."""
    os.environ.update(_REQUIRED)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
