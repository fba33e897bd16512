"""One YAML, from raw data to a gated, pushed model that carries its own preprocessing.

What stands in `__all__` is for notebooks and tests (docs/api.md); each name is imported when it is first used, so that
`import fullpass` loads neither TensorFlow nor TFX nor Beam.

Example:
    >>> import fullpass
    >>> run = fullpass.load("pipeline.yaml").run(epochs=3)  # doctest: +SKIP
    >>> run.predict(dataframe)  # doctest: +SKIP

The subpackages are the folders at the top of the repository, linked here so that `fullpass` is the only name that is
imported and installed.
"""

from fullpass.base.import_hook import protect_arrow

# Every module of the project is imported as a part of this package, so no reader is reached without it.
protect_arrow()

TYPE_CHECKING = False  # a type checker takes it for True; `typing` is not imported for it
if TYPE_CHECKING:
    from fullpass.base.errors import UserError
    from fullpass.pipeline.api.functions import check, init, load, tfx_components, tfx_pipeline
    from fullpass.pipeline.api.model import Model, open_model
    from fullpass.pipeline.api.pipeline import Pipeline
    from fullpass.pipeline.api.run import Run, Runs
    from fullpass.pipeline.api.transform import Transform
    from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem
    from fullpass.pipeline.registry.list_versions import Version

__all__ = [
    "ConfigError",
    "Model",
    "Pipeline",
    "Problem",
    "Run",
    "Runs",
    "Transform",
    "UserError",
    "Version",
    "check",
    "init",
    "load",
    "open_model",
    "tfx_components",
    "tfx_pipeline",
]

_API = "fullpass.pipeline.api"
_MODULES = {
    "ConfigError": "fullpass.pipeline.authoring.loading.problems",
    "Model": f"{_API}.model",
    "Pipeline": f"{_API}.pipeline",
    "Problem": "fullpass.pipeline.authoring.loading.problems",
    "Run": f"{_API}.run",
    "Runs": f"{_API}.run",
    "Transform": f"{_API}.transform",
    "UserError": "fullpass.base.errors",
    "Version": "fullpass.pipeline.registry.list_versions",
    "check": f"{_API}.functions",
    "init": f"{_API}.functions",
    "load": f"{_API}.functions",
    "open_model": f"{_API}.model",
    "tfx_components": f"{_API}.functions",
    "tfx_pipeline": f"{_API}.functions",
}


def _method(name: str) -> str:
    """Returns which object has a name that the module lacks."""
    having = [one for one in ("Pipeline", "Run", "Model") if hasattr(__getattr__(one), name)]
    ways = {"Pipeline": "fullpass.load(FILE)", "Run": "pipeline.run()", "Model": "fullpass.open_model(FOLDER)"}
    return " or ".join(f"{ways[one]}.{name}" for one in having)


class _NoSuchName(AttributeError):
    """A name that the module lacks; a notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:
        return [f"AttributeError: {self}"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("fullpass")
    if name not in _MODULES:
        if name.startswith("_") or not (way := _method(name)):
            raise _NoSuchName(f"module 'fullpass' has no attribute {name!r}. Its names: {', '.join(__all__)}.")
        raise _NoSuchName(f"module 'fullpass' has no attribute {name!r}. Ask an object for it: {way}.")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
