"""Finds a `package.module:function` in its source file, without importing anything."""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from fullpass.base.errors import did_you_mean
from fullpass.base.user_modules import find_source

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_problem(path: str, arguments: Iterable[str], *, folder: Path) -> str | None:
    """Returns the problem of the function that `path` names, or None.

    Args:
        path: The import path from the YAML, `package.module:function`.
        arguments: Names of the positional arguments that the function is called with.
        folder: The folder of the YAML, whose modules take precedence over installed ones.
    """
    module, _, name = path.partition(":")
    file = find_source(module, [str(folder)]) or find_source(module, list(sys.path))
    if file is None:
        return f"no module {module!r}, neither in {folder} nor among the installed packages."
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"{file}{f':{line}' if line else ''} is no valid Python: {error.args[0]}."
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    if name in functions:
        return _arguments_problem(functions[name], list(arguments), file)
    if name in _other_names(tree):
        return None
    found = ", ".join(functions) or "none"
    return f"{file} has no function {name!r}.{did_you_mean(name, functions)} Functions there: {found}."


def _arguments_problem(function: _Function, given: list[str], file: Path) -> str | None:
    taken = [*function.args.posonlyargs, *function.args.args]
    needed = len(taken) - len(function.args.defaults)
    keyword_only = [
        a.arg for a, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if default is None
    ]
    fits = needed <= len(given) and (len(given) <= len(taken) or function.args.vararg is not None)
    if fits and not keyword_only:
        return None
    has = ", ".join([*(a.arg for a in taken), *(f"*, {name}" for name in keyword_only)])
    return f"{file}:{function.lineno}: {function.name}({has}) is called as {function.name}({', '.join(given)})."


def _other_names(tree: ast.Module) -> set[str]:
    """Returns the names that a module binds by import, assignment or class; they may be functions too."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
    return names
