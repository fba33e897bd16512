"""The versions of the libraries that compute, and the line of TFX: with others, a node may compute something else."""

import importlib.metadata
import re
import sys

COMPUTING = (
    "tfx",
    "tensorflow",
    "tensorflow-transform",
    "tensorflow-data-validation",
    "tensorflow-model-analysis",
    "tfx-bsl",
    "ml-metadata",
    "apache-beam",
    "keras",
    "keras-tuner",
    "lightgbm",
    "scikit-learn",
    "scipy",
    "numpy",
    "pandas",
    "pyarrow",
    "pillow",
    "fastavro",
    "sqlalchemy",
    "duckdb",
    "tensorflow-datasets",
    "protobuf",
)
READING = ("pyarrow", "numpy", "pandas", "pillow", "fastavro", "sqlalchemy", "duckdb", "tensorflow-datasets", "tfx-bsl")
"""Those that read rows and write records."""


def version(package: str) -> str:
    """Returns the version of an installed distribution; "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def line() -> str:
    """Returns the line, such as `TFX 1.21.0, Python 3.13, TensorFlow 2.21.0`; without TensorFlow if there is none."""
    parts = [f"TFX {version('tfx')}", f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    tensorflow = version("tensorflow")  # the small image has none
    return ", ".join([*parts, f"TensorFlow {tensorflow}"] if tensorflow else parts)


def is_same(first: str, second: str) -> bool:
    """Returns whether two texts of `line` name one line: the same two first numbers of TFX.

    Example:
        >>> is_same("TFX 1.21.0, Python 3.13, TensorFlow 2.21.0", "TFX 1.21.1, Python 3.12")
        True
        >>> is_same("TFX 1.21.0, Python 3.13", "TFX 1.16.0, Python 3.11")
        False
    """
    return _number(first) == _number(second)


def _number(text: str) -> str:
    found = re.match(r"TFX (\d+\.\d+)\b", text)
    return found[1] if found else text
