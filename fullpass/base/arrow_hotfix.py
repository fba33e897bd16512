"""Protects every reader of Arrow data: before 14.0.1, Arrow runs code that a Parquet or Arrow file names.

`pyarrow_hotfix` disables the type of these files (CVE-2023-47248). It imports Arrow, which takes longer than many
commands, so it is imported when Arrow is, by whichever module. This module can go with the line of TFX 1.16, the only
one with such an Arrow.
"""

import sys

TYPE_CHECKING = False  # a type checker takes it for True; `typing` is not imported for it
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ARROW = "pyarrow"


class _Finder:
    """Finds Arrow as Python does, and makes its import import `pyarrow_hotfix`.

    It stays until Arrow is imported: libraries also look for Arrow without importing it.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Returns the spec of Arrow whose loader also installs the hotfix; None for other modules."""
        if name != _ARROW:
            return None
        found = (finder.find_spec(name, None, None) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_protected(module: "ModuleType") -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                execute(module)
                _disable(module)

            spec.loader.exec_module = execute_protected  # type: ignore[method-assign]
        return spec


def protect_arrow() -> None:
    """Makes reading Parquet and Arrow data safe in this process, whether Arrow is imported already or later."""
    if _ARROW in sys.modules:
        _disable(sys.modules[_ARROW])
    else:
        sys.meta_path.insert(0, _Finder())


def _disable(arrow: "ModuleType") -> None:
    if int(arrow.__version__.split(".")[0]) <= 14:
        import pyarrow_hotfix  # noqa: F401
