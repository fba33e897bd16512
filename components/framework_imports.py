"""Imports of TensorFlow, Beam, TFX and their companions, without what no node needs of them.

They take most of the time until the first node starts. Nothing is changed in the libraries, and whoever imports what is
left out here gets it later.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

_IN_PARTS = ("tfx.components", "tensorflow_model_analysis", "tensorflow_model_analysis.utils")
"""Packages whose own code imports all that they have, such as Kubernetes' client and nltk. Nodes need two of TFX's
components, and of TFMA the messages and defaults."""


_NODES_NEED = (
    "keras",
    "fullpass.components.transform.full_pass",
    "fullpass.components.evaluation.dependence_rows",
    "fullpass.components.parity.compare_ways",
    "fullpass.trainer.run_fn",
)
"""What the first nodes do without, in the order in which later ones need it."""


def import_frameworks() -> None:
    """Imports TensorFlow, Beam and TFDV; from here on TFX's components and TFMA are imported in parts.

    Raises:
        ModuleNotFoundError: TensorFlow is not installed.
    """
    for package in _IN_PARTS:
        import_in_parts(package)
    # TensorFlow imports Keras at its end, for whoever wants it; the others are for notebooks.
    with hidden("keras", "IPython", "tqdm.notebook"):
        import tensorflow  # noqa: F401, I001
        import apache_beam  # noqa: F401
        import tensorflow_data_validation  # noqa: F401


def import_for_nodes() -> Iterator[str]:
    """Imports what nodes need and who builds a pipeline does not, module by module, and yields their names."""
    for name in _NODES_NEED:
        with hidden("sklearn", "IPython") if name == "keras" else nullcontext():  # of wrappers, and for notebooks
            importlib.import_module(name)
        yield name


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Makes imports of libraries fail, as if they were not installed, unless they are imported already."""
    hiding = [name for name in names if name not in sys.modules]
    sys.modules |= dict.fromkeys(hiding)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hiding:
            del sys.modules[name]


def import_in_parts(name: str) -> None:
    """Imports a package without running its own code, until a name is asked for that is no module of it.

    A package that is imported already stays as it is.
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
