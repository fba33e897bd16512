"""Loads user-defined modules from the folder of the pipeline file under separate names.

If the YAML names `statistics`, a `statistics.py` beside it is loaded. `import statistics` in other code still imports
Python's own module. Two pipelines may each have a `features.py`.
"""

import hashlib
import importlib
import importlib.machinery
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER_VARIABLE = "FULLPASS_MODULES"
"""Environment variable with the folder, which child processes of a node, such as Beam workers, inherit."""
_PACKAGE = "fullpass_user_"
_appended: set[str] = set()
"""Folders that this module appended to `sys.path`."""


def use_modules_of(folder: Path) -> None:
    """Sets the folder of user-defined modules in this process and in its child processes."""
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    if before is not None and before != str(folder):
        _forget(before)
    _let_modules_import_each_other(str(folder))


def import_user_module(module: str) -> ModuleType:
    """Returns the module that a pipeline file names: from the user's folder if it is there, else an installed one.

    Raises:
        ImportError: The module, or a module that it imports, does not exist.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None or find_source(module, [folder]) is None:
        return importlib.import_module(module)
    _let_modules_import_each_other(folder)
    return importlib.import_module(f"{_package_of(folder)}.{module}")


def import_function(path: str) -> Any:
    """Returns the function with the path `package.module:function`.

    Raises:
        ImportError: The module does not exist.
        AttributeError: The module has no such function.
    """
    module, _, name = path.partition(":")
    return getattr(import_user_module(module), name)


def source_of(module: str) -> Path | None:
    """Returns the file that `import_user_module` would load; None if there is none or it is not Python source."""
    folder = os.environ.get(FOLDER_VARIABLE)
    own = find_source(module, [folder]) if folder is not None else None
    return own or find_source(module, list(sys.path))


def find_source(module: str, search: list[str]) -> Path | None:
    """Returns the source file of a module in `search`; unlike importlib.util.find_spec, imports no parent package."""
    parts = module.split(".")
    for i in range(len(parts)):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[: i + 1]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    origin = spec.origin if spec is not None else None
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def _package_of(folder: str) -> str:
    """Returns the name of the package whose modules are the files of a folder; creates the package if needed."""
    name = _PACKAGE + hashlib.sha256(folder.encode()).hexdigest()[:8]
    if name not in sys.modules:
        package = ModuleType(name, f"The modules in {folder}.")
        package.__path__ = [folder]
        sys.modules[name] = package
    return name


def _let_modules_import_each_other(folder: str) -> None:
    """Appends the folder to `sys.path`: modules can import neighbors by name, and no neighbor hides a library."""
    if folder not in sys.path:
        sys.path.append(folder)
        _appended.add(folder)


def _forget(folder: str) -> None:
    """Removes a folder from `sys.path`, and unloads its modules that were imported by their plain names."""
    if folder not in _appended:
        return
    _appended.discard(folder)
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        top = Path(folder, name.partition(".")[0])
        if file is not None and not name.startswith(_PACKAGE) and Path(file).is_relative_to(folder):
            if Path(file) == top.with_suffix(".py") or Path(file).is_relative_to(top):
                del sys.modules[name]
