"""The source files, and who imports whom."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests import REPOSITORY

LAYERS = {
    "base": REPOSITORY / "fullpass" / "base",
    **{name: REPOSITORY / name for name in ("preprocessing", "trainer", "components", "pipeline", "kubeflow")},
}
"""Package -> folder, from the lowest: a package imports only those before it."""


def source_files(package: str) -> list[Path]:
    """Returns the Python files of a package, sorted."""
    return sorted(LAYERS[package].rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def trees(pattern: str) -> Iterator[tuple[str, ast.Module]]:
    """Yields path in the repository and syntax tree of every source file whose text matches `pattern` somewhere."""
    for path in (path for package in LAYERS for path in source_files(package)):
        if not pattern or re.search(pattern, path.read_text(encoding="utf-8")):
            yield str(path.relative_to(REPOSITORY)), parsed(path)


def module_name(path: Path) -> str:
    """Returns the name that a source file is imported by, without `fullpass.`: `trainer.fit.early_stop`."""
    relative = path.relative_to(REPOSITORY).with_suffix("")
    return ".".join(relative.parts).removeprefix("fullpass.").removesuffix(".__init__")


def imported_names(tree: ast.Module, package: tuple[str, ...], *, at_start: bool = False) -> Iterator[str]:
    """Yields the dotted names that a module of `package` imports, also inside functions.

    `from a import b` yields `a.b`, which may be a module or a name in the module `a`.

    Args:
        at_start: Leaves out what is imported inside functions, or for a type checker only.
    """
    for node in (_outside_functions if at_start else ast.walk)(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else ()
            base = [*parents, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    if not for_types and not isinstance(node, ast.FunctionDef):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


@cache
def import_graph(*, at_start: bool = False) -> Mapping[str, frozenset[str]]:
    """Returns module -> the modules of this project that it imports; at_start: see `imported_names`."""
    files = {module_name(path): path for package in LAYERS for path in source_files(package)}
    graph = {}
    for name, path in files.items():
        parent = ("fullpass", *name.split(".")) if path.name == "__init__.py" else ("fullpass", *name.split(".")[:-1])
        found = set()
        for imported in imported_names(parsed(path), parent, at_start=at_start):
            dotted = imported.removeprefix("fullpass.")
            found |= {dotted, dotted.rpartition(".")[0]} & files.keys() if dotted not in files else {dotted}
        graph[name] = frozenset(found - {name})
    return graph


def units(graph: Mapping[str, Iterable[str]], folder: str) -> dict[str, set[str]]:
    """Returns the import graph of the files and folders directly in a folder, each folder taken as a whole."""
    prefix = f"{folder}."
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        if name.startswith(prefix):
            own = name.removeprefix(prefix).split(".")[0]
            others = {other.removeprefix(prefix).split(".")[0] for other in imported if other.startswith(prefix)}
            found[own] |= others - {own}
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the groups of nodes that import each other, directly or through others."""
    reach = {name: reachable(graph, name) for name in graph}
    groups = {tuple(sorted(other for other in reach[name] if name in reach.get(other, ()))) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def folder_circles() -> list[str]:
    """Returns the circles of folders and files, at every level, as text."""
    graph = import_graph()
    folders = sorted({".".join(name.split(".")[:depth]) for name in graph for depth in range(1, name.count(".") + 1)})
    return [f"{folder}: {' <-> '.join(circle)}" for folder in folders for circle in circles(units(graph, folder))]


def reachable(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Returns the nodes that can be reached from a node over one import or more."""
    seen: set[str] = set()
    pending = list(graph[start])
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(graph.get(name, ()))
    return seen
