"""The tree of a parsed expression, as frozen nodes, and the error that points to a position in its text."""

from collections.abc import Iterator
from dataclasses import dataclass

from fullpass.base.errors import UserError

MAX_LENGTH = 10_000
"""Largest number of characters in an expression."""
MAX_DEPTH = 100
"""Largest number of nesting levels; keeps recursion over a tree far below Python's limit."""

AGE = "at"
"""The list of every history that is there whatever its columns are: how many seconds before the row an event was."""
_SHOWN_BEFORE, _SHOWN_AFTER = 60, 40
"""Number of characters of an expression that a message shows before and after a mistake."""


def age_column(column: str) -> str:
    """Returns the list with the ages of the events, given any list of the same history.

    Example:
        >>> age_column("trips.fare")
        'trips.at'
    """
    return f"{column.partition('.')[0]}.{AGE}"


class ExpressionError(UserError):
    """An expression that cannot be used.

    Attributes:
        position: Index in the text of the character that the message points at.
    """

    def __init__(self, message: str, position: int = 0):
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class Constant:
    """A literal number, string or boolean."""

    value: float | str | bool
    position: int


@dataclass(frozen=True)
class ColumnReference:
    """A column by name."""

    name: str
    position: int


@dataclass(frozen=True)
class Call:
    """A call of a function or operator of `functions.TABLE`; a chain of `and`, or of `or`, is one call."""

    function: str
    arguments: tuple["Node", ...]
    position: int

    @property
    def lists(self) -> tuple[str, ...]:
        """The list of a history that a function `past_...` reads; empty if its argument is none."""
        first = self.arguments[0]
        return (first.name,) if isinstance(first, ColumnReference) and "." in first.name else ()


@dataclass(frozen=True)
class ComparisonChain:
    """`0 < a <= 5`: every operand is evaluated once; operator i is between operands i and i + 1."""

    operators: tuple[str, ...]
    operands: tuple["Node", ...]
    position: int


@dataclass(frozen=True)
class Membership:
    """`a in (1, 2)`."""

    operand: "Node"
    members: tuple[Constant, ...]
    position: int


Node = Constant | ColumnReference | Call | ComparisonChain | Membership


@dataclass(frozen=True)
class Expression:
    """A parsed expression: its text, its tree, and the columns it reads."""

    text: str
    root: Node
    columns: frozenset[str]


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yields every node with its depth, 1 for the root; without recursion, as the tree may be too deep for it."""
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending += [(child, depth + 1) for child in _children(node)]


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Call():
            return node.arguments
        case ComparisonChain():
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
        "Compute a part of it in a derived column and use that column here.",
    )


def one_line(text: str) -> str:
    """Returns text with every non-printable character replaced by a blank."""
    return "".join(character if character.isprintable() else " " for character in text)
