"""Parses text to a tree: the expression language is a subset of Python's syntax plus `column` in backticks.

`tokens` checks the tokens and their order, so error messages refer to this language. Python's own parser resolves the
precedence, on the same tokens with every name, number and string replaced by a placeholder.
"""

import ast
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from fullpass.base.errors import did_you_mean
from fullpass.preprocessing.expressions.functions import FUNCTIONS
from fullpass.preprocessing.expressions.syntax_tree import (
    MAX_DEPTH,
    MAX_LENGTH,
    Call,
    ColumnReference,
    Comparison,
    Constant,
    Expression,
    Membership,
    Node,
    error_at,
    too_deep,
    walk,
)
from fullpass.preprocessing.expressions.tokens import Token, tokens

_FLOAT32_MIN, _FLOAT32_MAX = 2.0**-126, 3.4028235e38
_AS_PYTHON = {"number": "0", "string": "''", "name": "_", "boolean": "_", "column": "_"}


def parse(text: str) -> Expression:
    """Parses an expression.

    Example:
        >>> sorted(parse("tips > 0.2 * fare").columns)
        ['fare', 'tips']

    Raises:
        ExpressionError: The text is not an expression, has an unknown function or a wrong number of arguments, or is
            too long or too deeply nested.
    """
    if len(text) > MAX_LENGTH:
        raise error_at(text, MAX_LENGTH, f"Expression of {len(text)} characters; at most {MAX_LENGTH} are accepted.")
    found = tokens(text)
    try:
        root = _Translation(text, found).root()
    except (RecursionError, MemoryError):
        raise too_deep(text, found[min(MAX_DEPTH, len(found) - 1)].position) from None
    columns: set[str] = set()
    for node, depth in walk(root):
        if depth > MAX_DEPTH:
            raise too_deep(text, node.position)
        if isinstance(node, ColumnReference):
            columns.add(node.name)
    return Expression(text, root, frozenset(columns))


class _Translation:
    """Translates Python's syntax tree of an expression to `Node`s; positions in Python's text map back to tokens."""

    def __init__(self, text: str, found: Sequence[Token]) -> None:
        self._text = text
        self._tokens = found
        self._python = [_AS_PYTHON.get(token.kind, token.text) for token in found]
        self._offsets = [0, *accumulate(len(word) + 1 for word in self._python)]

    def root(self) -> Node:
        return self._node(ast.parse(" ".join(self._python), mode="eval").body)

    def _token(self, node: ast.expr) -> Token:
        """Returns the token that a node begins with."""
        return self._tokens[bisect_left(self._offsets, node.col_offset)]

    def _operator(self, left: ast.expr) -> Token:
        """Returns the operator that follows an operand; the parentheses of an operand are not part of its node."""
        index = bisect_left(self._offsets, left.end_col_offset or 0)
        return next(token for token in self._tokens[index:] if token.operator != ")")

    def _node(self, node: ast.expr) -> Node:
        match node:
            case ast.BoolOp(values=values):
                return self._infix(values)
            case ast.BinOp(left=left, right=right):
                return self._infix([left, right])
            case ast.UnaryOp(operand=operand):
                return self._prefix(self._token(node), self._node(operand))
            case ast.Compare(left=left, comparators=others):
                return self._test([left, *others])
            case ast.Call(args=arguments):
                return self._call(node, arguments)
        return self._leaf(self._token(node))

    def _infix(self, operands: Sequence[ast.expr]) -> Node:
        operator = self._operator(operands[0])
        return Call(operator.operator, tuple(map(self._node, operands)), operator.position)

    def _prefix(self, token: Token, operand: Node) -> Node:
        if token.operator == "not":
            return Call("not", (operand,), token.position)
        if isinstance(operand, Constant) and isinstance(operand.value, float):
            return Constant(-operand.value, token.position)
        return Call("negate", (operand,), token.position)

    def _test(self, operands: Sequence[ast.expr]) -> Node:
        signs = [self._operator(operand) for operand in operands[:-1]]
        first, last = signs[0], signs[-1]
        if last.operator not in ("in", "not in"):
            names = tuple(sign.operator for sign in signs)
            return Comparison(names, tuple(map(self._node, operands)), first.position)
        if last is not first:
            message = f"Expected parentheses around the test before this, found {last}."
            raise error_at(self._text, last.position, message)
        written = operands[1].elts if isinstance(operands[1], ast.Tuple) else [operands[1]]
        members = tuple(member for member in map(self._node, written) if isinstance(member, Constant))
        node = Membership(self._node(operands[0]), members, first.position)
        return Call("not", (node,), first.position) if first.operator == "not in" else node

    def _call(self, node: ast.Call, arguments: Sequence[ast.expr]) -> Node:
        name = self._token(node)
        function = FUNCTIONS.get(name.text)
        if function is None:
            hint, accepted = did_you_mean(name.text, FUNCTIONS), ", ".join(FUNCTIONS)
            raise error_at(self._text, name.position, f'Unknown function "{name.text}".{hint} Accepted: {accepted}.')
        if len(arguments) < function.min_arguments:
            closing = self._tokens[bisect_left(self._offsets, node.end_col_offset or 0) - 1]
            message = (
                f"{function.signature} needs at least {_arguments(function.min_arguments)}, found {len(arguments)}."
            )
            raise error_at(self._text, closing.position, message)
        if function.max_arguments is not None and len(arguments) > function.max_arguments:
            beyond = self._token(arguments[function.max_arguments])
            message = (
                f"{function.signature} accepts at most {_arguments(function.max_arguments)}, found {len(arguments)}."
            )
            raise error_at(self._text, beyond.position, message)
        return Call(function.name, tuple(map(self._node, arguments)), name.position)

    def _leaf(self, token: Token) -> Node:
        if token.kind in ("name", "column"):
            return ColumnReference(token.text, token.position)
        if token.kind == "boolean":
            return Constant(token.text == "true", token.position)
        if token.kind == "string":
            return Constant(token.text, token.position)
        value = float(token.text)
        if value and not _FLOAT32_MIN <= value <= _FLOAT32_MAX:
            accepted = f"0, or {_FLOAT32_MIN:g} to {_FLOAT32_MAX:g}, is accepted"
            raise error_at(
                self._text, token.position, f"Number {token.text} is outside the range of float32: {accepted}."
            )
        return Constant(value, token.position)


def _arguments(count: int) -> str:
    return f"{count} argument{'s' * (count != 1)}"
