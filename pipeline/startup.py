"""What a process does before and while it imports TensorFlow, TFX and Beam: its environment, and less to import.

These imports take most of the time before the first node starts. The libraries are not modified, and code that imports
a part skipped here gets it at that point. Seconds gained on two cores (taxi example), medians of five where not said
otherwise:

| function | gain |
|---|---|
| `large_imports` | 1.9 of 5.3 s of imports of a run; 1.1 s of `fullpass predict` |
| `import_frameworks`, packages imported lazily | the first node starts 1.1 s earlier (shortest of five) |
| `import_frameworks`, Keras later | the first node starts 0.5 s earlier |
| `import_frameworks` and `import_for_nodes`, without IPython | 0.35 s of processors, and 23 MiB of each process |
| `import_frameworks`, `_OPTIONAL` | 0.4 s before the first node (six pairs), as much more before Transform |
| `import_frameworks`, `after_tensorflow` | ServingCheck's import of TensorFlow: 73 % of its process (one sampled run) |
| `import_for_nodes` | 0.6 s of each node that needs Keras and TF Transform: the time of these imports |
| `without_keras` | 0.4 s of `fullpass predict` |
"""

import gc
import importlib
import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fullpass.base.import_hook import wrap_import
from fullpass.base.processes import flush_streams

SAFE_PATH = "PYTHONSAFEPATH"
# Keras 3 for models; TensorFlow Transform would otherwise choose Keras 2 for the whole process.
# With PYTHONSAFEPATH, processes that Beam and others start by `python -m` do not search the working folder, which
# holds the user's files.
_REQUIRED = {"TF_USE_LEGACY_KERAS": "0", SAFE_PATH: "1"}
# These variables silence start-up messages of TensorFlow, gRPC and absl. Values set by the user are kept.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR", "ABSL_MIN_LOG_LEVEL": "2"}
_NOISE = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")
"""Begins lines that TensorFlow 2.17 and later write while they load, before they read `TF_CPP_MIN_LOG_LEVEL`."""
_LAZY_PACKAGES = ("tfx.components", "tensorflow_model_analysis", "tensorflow_model_analysis.utils")
"""Packages whose `__init__` imports everything they contain, such as the Kubernetes client and nltk. Nodes need only
two of TFX's components; TFX's specifications of components import the messages of TFMA."""
_ALSO_OF = {"tensorflow_model_analysis": ("tensorflow_model_analysis.proto.config_pb2",)}
"""Lazy package -> modules whose names it has, too. TFMA 0.52 lacks its messages, such as `EvalConfig`, until the
`__init__` of `tfx.components` adds them, which is lazy."""
_NODES_NEED = (
    "keras",
    "fullpass.components.transform.full_pass",
    "sklearn",
    "sklearn.linear_model",
    "fullpass.components.evaluation.shown.partial_dependence",
    "fullpass.components.parity.compare_paths",
    "fullpass.trainer.run_fn",
)
"""Modules that the first nodes do not need, in the order in which later nodes need them; none takes long, because a
node that is ready waits for the end of an import."""
_OPTIONAL = {
    "tensorflow": ("keras", "scipy"),
    "apache_beam": (
        "keras",
        "bson",
        "google.cloud.bigquery",
        "google.cloud.bigquery_storage_v1",
        "google.cloud.pubsub",
    ),
    "tensorflow_data_validation": ("keras",),
    "keras": ("sklearn",),
}
"""Library -> what its import leaves out besides IPython, which is for notebooks. Keras, SciPy and scikit-learn are
imported later. Nothing reads MongoDB (bson), BigQuery or Pub/Sub through Beam."""


def set_environment() -> None:
    """Sets the environment variables of a process and of those that it starts, before it imports the libraries."""
    os.environ.update(_REQUIRED)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if os.path.expanduser("~") == "~":  # a user without HOME and without a name: TFX imports IPython, which needs one
        os.environ["HOME"] = "/"  # as container runtimes set it
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3":
        wrap_import("tensorflow", _without_noise)


def set_notebook_environment() -> None:
    """Sets the environment like `set_environment`, and silences what Python's libraries warn of in a cell."""
    set_environment()
    logging.getLogger("tensorflow").addFilter(_is_error)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _without_noise(load: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns `load` with standard error kept until it ends, and then written without the lines of `_NOISE`."""

    def load_quietly(module: Any) -> None:
        with TemporaryDirectory() as folder:
            written = Path(folder) / "noise"
            try:
                with noise_to(written):
                    load(module)
            finally:
                lines = written.read_bytes().splitlines(keepends=True)
                os.write(2, b"".join(line for line in lines if not _NOISE.match(line)))

    return load_quietly


@contextmanager
def noise_to(path: Path) -> Iterator[None]:
    """Appends standard error, including that of C++ libraries, to the file `path`, whose folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flush_streams()
    kept = os.dup(2)
    try:
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        flush_streams()
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def large_imports() -> Iterator[None]:
    """Disables the garbage collector while large libraries are imported, and freezes the objects they defined.

    Otherwise the collector scans a million permanent objects again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def import_frameworks(after_tensorflow: Callable[[], None] = lambda: None) -> None:
    """Imports TensorFlow, Beam and TFDV, and makes later imports of TFX's components and of TFMA lazy.

    Args:
        after_tensorflow: Is called when TensorFlow is imported, and the others are not.

    Raises:
        ModuleNotFoundError: TensorFlow is not installed.
    """
    for package in _LAZY_PACKAGES:
        import_lazily(package)
    _import("tensorflow")
    after_tensorflow()
    _import("apache_beam")
    _import("tensorflow_data_validation")


def import_for_nodes() -> Iterator[str]:
    """Imports the modules that nodes need and building a pipeline does not need, one by one, and yields their names."""
    for name in _NODES_NEED:
        _import(name)
        yield name


def _import(name: str) -> None:
    with blocked_imports("IPython", *_OPTIONAL.get(name, ())):
        importlib.import_module(name)


def without_keras() -> None:
    """Makes TensorFlow, which is imported later, skip Keras: an export runs without it."""
    sys.modules["keras"] = None  # type: ignore[assignment]


@contextmanager
def blocked_imports(*names: str) -> Iterator[None]:
    """Makes imports of libraries fail as if they were not installed, unless they are already imported."""
    blocked = [name for name in names if name not in sys.modules]
    sys.modules |= dict.fromkeys(blocked)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in blocked:
            del sys.modules[name]


def import_lazily(name: str) -> None:
    """Imports a package lazily: its `__init__` runs only when an attribute is requested that is not a submodule.

    A package that is already imported stays unchanged.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def find(attribute: str) -> Any:
        if importlib.util.find_spec(f"{name}.{attribute}") is not None:
            return importlib.import_module(f"{name}.{attribute}")
        del package.__getattr__
        loader.exec_module(package)
        for module in _ALSO_OF.get(name, ()):
            for found, value in vars(importlib.import_module(module)).items():
                vars(package).setdefault(found, value)
        return getattr(package, attribute)

    package.__getattr__ = find  # type: ignore[method-assign]
    sys.modules[name] = package
