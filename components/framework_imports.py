"""Imports TensorFlow, Beam, TFX and related libraries without the parts that no node needs.

These imports take most of the time before the first node starts. The libraries are not modified. Code that imports a
part skipped here gets it at that point.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_LAZY_PACKAGES = ("tfx.components",)
"""Packages whose `__init__` imports everything they contain, such as the Kubernetes client; nodes need two of TFX's."""


_NODES_NEED = (
    "keras",
    "fullpass.components.transform.full_pass",
    "fullpass.components.evaluation.partial_dependence",
    "fullpass.components.parity.compare_paths",
    "fullpass.trainer.run_fn",
)
"""Modules that the first nodes do not need, in the order in which later nodes need them."""


def import_frameworks() -> None:
    """Imports TensorFlow, Beam and TFDV, and makes later imports of TFX's components lazy.

    Raises:
        ModuleNotFoundError: TensorFlow is not installed.
    """
    for package in _LAZY_PACKAGES:
        import_lazily(package)
    # TensorFlow imports Keras last, as an optional dependency; the others are for notebooks.
    with blocked_imports("keras", "IPython", "tqdm.notebook"):
        import tensorflow  # noqa: F401, I001
        import apache_beam  # noqa: F401
        import tensorflow_data_validation  # noqa: F401


def import_for_nodes() -> Iterator[str]:
    """Imports the modules that nodes need and building a pipeline does not need, one by one, and yields their names."""
    for name in _NODES_NEED:
        with (
            blocked_imports("sklearn", "IPython") if name == "keras" else nullcontext()
        ):  # for wrappers, and for notebooks
            importlib.import_module(name)
        yield name


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
        return getattr(package, attribute)

    package.__getattr__ = find  # type: ignore[method-assign]
    sys.modules[name] = package
