"""Controls the imports of a container before its executor runs; imports take most of a task's start-up time.

TFX itself works without TensorFlow and Beam if they are not installed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from fullpass.base.errors import UserError
from fullpass.components.framework_imports import blocked_imports, import_frameworks

WITHOUT_TENSORFLOW = frozenset(
    {
        "fullpass.components.data_gate.gate_component.DataGate_Executor",
        "fullpass.components.push.component.Pusher_Executor",
        "fullpass.components.report.component.Report_Executor",
        "fullpass.components.declared_schema.DeclaredSchema_Executor",
        "fullpass.components.serving_check.component.ServingCheck_Executor",
    }
)
"""Executors that need neither TensorFlow nor Beam: they read and write small files, or load the model in a separate
process (ServingCheck)."""
IN_SMALL_IMAGE = WITHOUT_TENSORFLOW - {"fullpass.components.serving_check.component.ServingCheck_Executor"}
"""Executors for which TensorFlow and Beam need not be installed."""


@contextmanager
def libraries_for(executor: str, *, direct: bool) -> Iterator[None]:
    """Imports the libraries that an executor needs, or hides them from TFX while the executor is imported.

    Args:
        executor: package.module.Class.
        direct: whether artifacts are opened in the object store, for which TFX uses TensorFlow.
    """
    if executor in WITHOUT_TENSORFLOW and not direct:
        with blocked_imports("tensorflow", "apache_beam"):
            yield
        return
    _import_frameworks()
    yield


def _import_frameworks() -> None:
    try:
        import_frameworks()
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise UserError(
            "this node needs TensorFlow, which its image lacks; images of the variant small have none. Set "
            "`image`, or `nodes.NAME.image`, to an image of the variant cpu or gpu."
        ) from error
