"""Changes what happens while a package is imported, without importing it: whichever module imports it first.

Every reader of Arrow data is protected so: before 14.0.1, Arrow runs code that a Parquet or Arrow file names, and
`pyarrow_hotfix` disables the type of these files (CVE-2023-47248). It imports Arrow, which takes longer than many
commands, so it is imported when Arrow is. `protect_arrow` can go with the line of TFX 1.16, the only one with such an
Arrow.
"""

import sys

TYPE_CHECKING = (
    False  # a type checker takes it for True; `import fullpass` imports this module, and `typing` takes long
)
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Execute = Callable[[ModuleType], None]

_ARROW = "pyarrow"


class _Hook:
    """Finds one package as Python does, and wraps the execution of its code.

    It stays until the package is imported: libraries also look for packages without importing them.
    """

    def __init__(self, name: str, wrap: "Callable[[Execute], Execute]") -> None:
        self.name = name
        self._wrap = wrap

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Returns the spec of the package with its wrapped loader; None for other modules."""
        if name != self.name:
            return None
        found = (finder.find_spec(name, None, None) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            execute = self._wrap(spec.loader.exec_module)

            def execute_once(module: "ModuleType") -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                execute(module)

            spec.loader.exec_module = execute_once  # type: ignore[method-assign]
        return spec


def wrap_import(name: str, wrap: "Callable[[Execute], Execute]") -> None:
    """Wraps the code of a package when it is imported; does nothing if it is wrapped or imported already.

    Args:
        name: The package, which is not imported by this.
        wrap: Takes the function that executes the package's code in its module, and returns the one to call instead.
    """
    waiting = any(isinstance(finder, _Hook) and finder.name == name for finder in sys.meta_path)
    if name not in sys.modules and not waiting:
        sys.meta_path.insert(0, _Hook(name, wrap))


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
