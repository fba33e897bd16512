"""Protects every reader of Arrow data: before 14.0.1, Arrow runs code that a Parquet or Arrow file names.

`pyarrow_hotfix` disables the type of these files (CVE-2023-47248). It imports Arrow, which takes longer than many
commands, so it is imported when Arrow is, by whichever module. This module can go with the line of TFX 1.16, the only
one with such an Arrow.
"""

import sys

from fullpass.base.import_hook import wrap_import

TYPE_CHECKING = False  # a type checker takes it for True; `typing` is not imported for it
if TYPE_CHECKING:
    from types import ModuleType

    from fullpass.base.import_hook import Execute

_ARROW = "pyarrow"


def protect_arrow() -> None:
    """Makes reading Parquet and Arrow data safe in this process, whether Arrow is imported already or later."""
    if _ARROW in sys.modules:
        _disable(sys.modules[_ARROW])
    else:
        wrap_import(_ARROW, _protected)


def _protected(execute: "Execute") -> "Execute":
    def execute_protected(module: "ModuleType") -> None:
        execute(module)
        _disable(module)

    return execute_protected


def _disable(arrow: "ModuleType") -> None:
    if int(arrow.__version__.split(".")[0]) <= 14:
        import pyarrow_hotfix  # noqa: F401
