"""The versions of the libraries that compute: with another version, a node may compute something else."""

import importlib.metadata

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
