"""Reads attribute docstrings, the strings below class attributes, for JSON Schema and the reference pages.

pydantic can read them from the source too, but does so whenever a class is created, which takes a quarter of the time
of `fullpass check`.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType


@cache
def attribute_docs(cls: type) -> Mapping[str, str]:
    """Returns attribute -> docstring for the annotated attributes of a class and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        module = inspect.getmodule(base)
        if module is not None and getattr(module, "__file__", "").endswith(".py"):
            found |= _of_module(module).get(base.__qualname__, {})
    return found


@cache
def _of_module(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Returns qualified class name -> attribute -> docstring."""
    return dict(_classes(ast.parse(inspect.getsource(module)), ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield name, dict(_documented(child.body))
            yield from _classes(child, f"{name}.")


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for attribute, text in zip(body, body[1:], strict=False):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, inspect.cleandoc(words)
