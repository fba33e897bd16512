"""What a parsed expression is: a tree of frozen nodes, and the error that points into its text."""

from collections.abc import Iterator
from dataclasses import dataclass

from fullpass.preprocessing.errors import UserError

MAX_LENGTH = 10_000
"""Characters in an expression."""
MAX_DEPTH = 100
"""Levels of nesting; keeps every recursion over a tree far from Python's limit."""

_SHOWN_BEFORE, _SHOWN_AFTER = 60, 40


class ExpressionError(UserError):
    """An expression that cannot be used.

    Attributes:
        position: index in the text of the character that the message points at.
    """

    def __init__(self, message: str, position: int = 0):
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class Constant:
    """A number, string or boolean written out."""

    value: float | str | bool
    position: int


@dataclass(frozen=True)
class ColumnReference:
    """A column by name."""

    name: str
    position: int


@dataclass(frozen=True)
class Call:
    """A function or operator of `functions.TABLE` on its arguments; a chain of and, or of or, is one."""

    function: str
    arguments: tuple["Node", ...]
    position: int


@dataclass(frozen=True)
class Comparison:
    """`0 < a <= 5`: every operand is evaluated once, operator i stands between operands i and i + 1."""

    operators: tuple[str, ...]
    operands: tuple["Node", ...]
    position: int


@dataclass(frozen=True)
class Membership:
    """`a in (1, 2)`."""

    operand: "Node"
    members: tuple[Constant, ...]
    position: int


Node = Constant | ColumnReference | Call | Comparison | Membership


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text, its tree, and the columns it reads."""

    text: str
    root: Node
    columns: frozenset[str]


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yields every node with its depth, the root at 1, without recursion: the tree may still be too deep for that."""
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending += [(child, depth + 1) for child in _children(node)]


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Call():
            return node.arguments
        case Comparison():
            return node.operands
        case Membership():
            return (node.operand, *node.members)
    return ()


def error_at(text: str, position: int, message: str) -> ExpressionError:
    """Returns an error that shows the text with a caret under the character at `position`.

    Example:
        Unknown function "lgo". Did you mean "log"?
          lgo(x) / y
          ^
    """
    start, end = max(0, position - _SHOWN_BEFORE), position + _SHOWN_AFTER
    before = ("... " if start else "") + one_line(text[start:position])
    after = one_line(text[position:end]) + (" ..." if end < len(text) else "")
    return ExpressionError(f"{message}\n  {before}{after}\n  {' ' * len(before)}^", position)


def too_deep(text: str, position: int) -> ExpressionError:
    """Returns the error of an expression that is nested too deeply at `position`."""
    return error_at(
        text,
        position,
        f"Nested more than {MAX_DEPTH} levels deep (a sum of n terms is n levels). "
        "Derive a column from a part of it and use that here.",
    )


def one_line(text: str) -> str:
    """Returns text with every character that cannot be shown as a blank."""
    return "".join(character if character.isprintable() else " " for character in text)
