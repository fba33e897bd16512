"""Loads user-defined modules from the folder of the pipeline file under separate names.

If the YAML names `statistics`, a `statistics.py` beside it is loaded. `import statistics` in other code still imports
Python's own module. Two pipelines may each have a `features.py`.
"""

import hashlib
import importlib
import importlib.machinery
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fullpass.base.errors import UserError, did_you_mean

FOLDER_VARIABLE = "FULLPASS_MODULES"
"""Environment variable with the folder, which child processes of a node, such as Beam workers, inherit."""
_PACKAGE = "fullpass_user_"
_OF_FOLDER = re.compile(rf"^{_PACKAGE}[0-9a-f]{{8}}\.")
_PORTABLE = "fullpass_user."
_AUTOGRAPH = "in user code:"
_PRINTED_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)
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
        UserError: It cannot be imported; the message names the line of the user's folder that failed.
    """
    module, _, name = path.partition(":")
    try:
        found = import_user_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{path} cannot be imported: {type(error).__name__}: {error}. Its module must lie beside the YAML, or be "
            f"installed where the pipeline runs.{_place(path, error)}"
        ) from error
    if not hasattr(found, name):
        raise UserError(f"{path} cannot be imported: {module} has no {name!r}.{did_you_mean(name, vars(found))}")
    return getattr(found, name)


def portable_path(path: str) -> str:
    """Returns the path of a class, package.module.Class, as another machine imports it by `import_class`.

    Example:
        >>> portable_path("fullpass_user_0a1b2c3d.checks.FairnessCheck"), portable_path("tfx.v1.Model")
        ('fullpass_user.checks.FairnessCheck', 'tfx.v1.Model')
    """
    return _OF_FOLDER.sub(_PORTABLE, path)


def import_class(path: str) -> Any:
    """Returns the class with a path that `portable_path` returned; the user's folder may be another than there."""
    module, _, name = path.rpartition(".")
    if module.startswith(_PORTABLE):
        return getattr(import_user_module(module.removeprefix(_PORTABLE)), name)
    return getattr(importlib.import_module(module), name)


@contextmanager
def own_code(path: str, hint: str = "") -> Iterator[None]:
    """Turns an error of a user's function into a `UserError` that names the file, the line and the function.

    Args:
        path: The function, as package.module:function.
        hint: A sentence after the message of a ValueError, which TensorFlow and Keras raise for wrong shapes.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        message = str(error).strip()
        if message.startswith(_AUTOGRAPH):
            message = message.splitlines()[-1].strip().removeprefix(f"{type(error).__name__}: ")
        said = f"{path} raised {type(error).__name__}: {message}"
        raise UserError(
            f"{said}{f'. {hint}' if hint and isinstance(error, ValueError) else ''}{_place(path, error)}"
        ) from error


def _place(path: str, error: BaseException) -> str:
    """Returns the innermost line of the user's folder that an error passed, as text; "" if there is none."""
    file = source_file_of(path.partition(":")[0])
    frames = [(frame.filename, str(frame.lineno), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    # AutoGraph runs a copy of the function, and tells its place in the message only.
    frames += [(found["file"], found["line"], found["function"]) for found in _PRINTED_FRAME.finditer(str(error))]
    own = [frame for frame in frames if file and Path(frame[0]).is_relative_to(file.parent)]
    return f"\n  at {own[-1][0]}:{own[-1][1]} in {own[-1][2]}" if own else ""


def source_file_of(module: str) -> Path | None:
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
