"""One YAML, from raw data to a gated, pushed model that carries its own preprocessing.

What stands in `__all__` is for notebooks and tests (docs/api.md); each name is imported when it is first used, so that
`import fullpass` loads neither TensorFlow nor TFX nor Beam.

Example:
    >>> import fullpass
    >>> outcome = fullpass.run("pipeline.yaml")  # doctest: +SKIP
    >>> fullpass.predict(outcome.pushed_to, dataframe)  # doctest: +SKIP

The subpackages are the folders at the top of the repository, linked here so that `fullpass` is the only name that is
imported and installed.
"""

from fullpass.base.import_hook import protect_arrow

# Every module of the project is imported as a part of this package, so no reader is reached without it.
protect_arrow()

TYPE_CHECKING = False  # a type checker takes it for True; `typing` is not imported for it
if TYPE_CHECKING:
    from fullpass.base.errors import UserError
    from fullpass.components.predict.exported import Exported
    from fullpass.pipeline.api import (
        Pipeline,
        Transform,
        analyze,
        check,
        compare,
        evaluate,
        init,
        load,
        metrics,
        open_model,
        open_report,
        predict,
        rollback,
        run,
        runs,
        tfx_pipeline,
        versions,
    )
    from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem
    from fullpass.pipeline.record.outcome import Outcome
    from fullpass.pipeline.registry.list_versions import Version

__all__ = [
    "ConfigError",
    "Exported",
    "Outcome",
    "Pipeline",
    "Problem",
    "Transform",
    "UserError",
    "Version",
    "analyze",
    "check",
    "compare",
    "evaluate",
    "init",
    "load",
    "metrics",
    "open_model",
    "open_report",
    "predict",
    "rollback",
    "run",
    "runs",
    "tfx_pipeline",
    "versions",
]

_API = "fullpass.pipeline.api"
_MODULES = dict.fromkeys(__all__, _API) | {
    "ConfigError": "fullpass.pipeline.authoring.loading.problems",
    "Exported": "fullpass.components.predict.exported",
    "Outcome": "fullpass.pipeline.record.outcome",
    "Problem": "fullpass.pipeline.authoring.loading.problems",
    "UserError": "fullpass.base.errors",
    "Version": "fullpass.pipeline.registry.list_versions",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'fullpass' has no attribute {name!r}. Its names: {', '.join(__all__)}.")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
