"""Converts `beam:` of the YAML to Beam's command line arguments."""

from fullpass.base.processes import usable_cores
from fullpass.components.ingest.readers.rows import PART_BYTES
from fullpass.pipeline.config import BeamConfig
from fullpass.preprocessing.internals.prism import without_prism

_RUNNERS = {"direct": "DirectRunner", "flink": "FlinkRunner", "spark": "SparkRunner", "dataflow": "DataflowRunner"}
MULTI_PROCESSING_BYTES = 1_000_000_000
"""Data size from which a process per core pays off. Below it, starting processes that import TensorFlow costs more."""

# The workers of the direct runner run in this environment. Without this option, every Beam executor of TFX first builds
# a source package of TFX, which takes seconds. The runner itself ignores the image.
_NO_PACKAGE = "--sdk_container_image=none"


def beam_args(config: BeamConfig, *, data_bytes: int) -> list[str]:
    """Returns the arguments for every Beam component.

    Args:
        data_bytes: Size of the raw files, which determines the number of workers of the direct runner.
    """
    runner = _RUNNERS.get(config.runner, config.runner)
    args = [f"--runner={runner}"]
    if runner == "DirectRunner":
        args += _direct_args(config.workers, data_bytes)
    for name, value in config.options.items():
        args += _option(name, value)
    return args


def prediction_args(config: BeamConfig, *, data_bytes: int) -> list[str]:
    """Returns the arguments for a batch prediction. auto: a process per part of the rows, at most one per core.

    Args:
        data_bytes: Size of the files with the rows.
    """
    if config.workers == "auto":
        parts = max(1, data_bytes // PART_BYTES)
        config = config.model_copy(update={"workers": min(usable_cores(), parts)})
    return beam_args(config, data_bytes=data_bytes)


def _direct_args(workers: str | int, data_bytes: int) -> list[str]:
    if isinstance(workers, str):
        workers = usable_cores() if data_bytes >= MULTI_PROCESSING_BYTES else 1
    mode = "multi_processing" if workers > 1 else "in_memory"
    return [f"--direct_running_mode={mode}", f"--direct_num_workers={workers}", _NO_PACKAGE, *without_prism()]


def _option(name: str, value: object) -> list[str]:
    if value is None or value is True:
        return [f"--{name}"]
    if value is False:
        return [f"--no_{name}"]
    if isinstance(value, tuple):
        return [f"--{name}={entry}" for entry in value]
    return [f"--{name}={value}"]
