"""Parses text to a tree: the expression language is a subset of Python's syntax plus `column` in backticks.

Python's own parser resolves the precedence and finds syntax errors, on the tokens of the text with every name, number
and string replaced by a placeholder.
"""

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

from fullpass.base.errors import did_you_mean
from fullpass.preprocessing.expressions.functions import FUNCTIONS, TABLE
from fullpass.preprocessing.expressions.syntax_tree import (
    MAX_DEPTH,
    MAX_LENGTH,
    Call,
    ColumnReference,
    ComparisonChain,
    Constant,
    Expression,
    ExpressionError,
    Membership,
    Node,
    age_column,
    error_at,
    too_deep,
    walk,
)
from fullpass.preprocessing.spec import FLOAT32_MAX

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<operator>\*\*|==|!=|<=|>=|[-+*/%<>(),]|(?:not\s+in|and|or|not|in)\b)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | `(?P<column>[^`]+)`
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | '(?P<single>(?:[^'\\]|\\.)*)'""",
    flags=re.VERBOSE | re.DOTALL,
)
_ESCAPES: Mapping[str, str] = MappingProxyType({"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t"})
# Syntax of other languages -> its replacement.
_MEANT: Mapping[str, str] = MappingProxyType(
    {
        "&": "`and`",
        "|": "`or`",
        "!": "`not`",
        "=": "`==`",
        "^": "`**` for a power",
        "?": "`where(condition, a, b)`",
        "[": "`(`",
        ".": "backticks around a column name that contains a dot",
        "$": "backticks around a column name that contains characters other than letters, digits and _",
    }
)
_FLOAT32_MIN = 2.0**-126
_KEYWORDS = ("and", "or", "not", "in", "true", "false")
_AS_PYTHON = {"number": "0", "string": "''", "name": "_", "boolean": "_", "column": "_"}


@dataclass(frozen=True)
class Token:
    """A token of an expression; for a string or a column in backticks, `text` is without the quotes."""

    kind: str  # number | name | boolean | column | string | operator | end
    text: str
    position: int

    @property
    def operator(self) -> str:
        """The operator or keyword; empty for other kinds."""
        return self.text if self.kind == "operator" else ""

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"`{self.text}`"


def tokens(text: str) -> Iterator[Token]:
    """Yields the tokens of an expression, the last of kind `end`.

    Raises:
        ExpressionError: A character starts no token, a string is not closed, or an escape is unknown.
    """
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        kind = match.lastgroup or ""
        value = match.group(kind)
        if kind in ("double", "single"):
            yield Token("string", _unescape(text, position + 1, value), position)
        elif kind == "name" and value in ("true", "false"):
            yield Token("boolean", value, position)
        elif kind == "operator":
            yield Token(kind, " ".join(value.split()), position)
        elif kind != "blank":
            yield Token(kind, value, position)
        position = match.end()
    yield Token("end", "", len(text))


def _unreadable(text: str, position: int) -> ExpressionError:
    character = text[position]
    if character in "\"'`":
        return error_at(text, position, f"This {character} is not closed.")
    hint = f" Write {_MEANT[character]}." if character in _MEANT else ""
    return error_at(text, position, f"Character {character!r} is not accepted here.{hint}")


def _unescape(text: str, start: int, body: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found.group(1) not in _ESCAPES:
            accepted = ", ".join(f"\\{known}" for known in _ESCAPES)
            raise error_at(text, start + found.start(), f"Unknown escape {found.group()}. Accepted: {accepted}.")
        return _ESCAPES[found.group(1)]

    return re.sub(r"\\(.)", character, body, flags=re.DOTALL)


def parse_expression(text: str) -> Expression:
    """Parses an expression.

    Example:
        >>> sorted(parse_expression("tips > 0.2 * fare").columns)
        ['fare', 'tips']

    Raises:
        ExpressionError: The text is not an expression, has an unknown function or a wrong number of arguments, or is
            too long or too deeply nested.
    """
    if len(text) > MAX_LENGTH:
        raise error_at(text, MAX_LENGTH, f"Expression of {len(text)} characters; at most {MAX_LENGTH} are accepted.")
    found = tuple(tokens(text))
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
        elif isinstance(node, Call) and TABLE[node.function].reads_list:
            columns |= {age_column(of_list) for of_list in node.lists}
    return Expression(text, root, frozenset(columns))


class _Translation:
    """Translates Python's syntax tree of an expression to `Node`s; positions in Python's text map back to tokens."""

    def __init__(self, text: str, found: Sequence[Token]) -> None:
        self._text = text
        self._tokens = found
        self._python = [_AS_PYTHON.get(token.kind, token.text) for token in found]
        self._offsets = [0, *accumulate(len(word) + 1 for word in self._python)]

    def root(self) -> Node:
        try:
            return self._node(ast.parse(" ".join(self._python), mode="eval").body)
        except SyntaxError as error:
            token = self._token_at(error.offset - 1) if error.offset else self._tokens[-1]
            if error.msg == "too many nested parentheses":
                raise too_deep(self._text, token.position) from None
            raise self._refused(token, error.msg.partition(". ")[0]) from None

    def _token_at(self, offset: int) -> Token:
        return self._tokens[min(bisect_left(self._offsets, offset), len(self._tokens) - 1)]

    def _token(self, node: ast.expr) -> Token:
        return self._token_at(node.col_offset)

    def _operator(self, left: ast.expr) -> Token:
        """Returns the operator that follows an operand; the parentheses of an operand are not part of its node."""
        index = bisect_left(self._offsets, left.end_col_offset or 0)
        return next(token for token in self._tokens[index:] if token.operator != ")")

    def _refused(self, token: Token, reason: str = "invalid syntax") -> ExpressionError:
        hint = did_you_mean(token.text, _KEYWORDS) if token.kind == "name" else ""
        where = f" at {token}" if reason == "invalid syntax" else ""
        return error_at(self._text, token.position, f"{reason[0].upper()}{reason[1:]}{where}.{hint}")

    def _node(self, node: ast.expr) -> Node:
        match node:
            case ast.BoolOp(values=values):
                return self._infix(values)
            case ast.BinOp(left=left, right=right):
                return self._infix([left, right])
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                return self._prefix(self._token(node), self._node(operand))
            case ast.Compare(left=left, comparators=others):
                return self._test([left, *others])
            case ast.Call(func=ast.Name(), args=arguments, keywords=[]):
                return self._call(node, arguments)
            case ast.Name() | ast.Constant():
                return self._leaf(node)
        raise self._refused(self._token(node))

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
        if not any(sign.operator in ("in", "not in") for sign in signs):
            names = tuple(sign.operator for sign in signs)
            return ComparisonChain(names, tuple(map(self._node, operands)), signs[0].position)
        if len(signs) > 1:
            message = f"Expected parentheses around the test before this, found {signs[1]}."
            raise error_at(self._text, signs[1].position, message)
        node = Membership(self._node(operands[0]), self._members(signs[0], operands[1]), signs[0].position)
        return Call("not", (node,), node.position) if signs[0].operator == "not in" else node

    def _members(self, sign: Token, written: ast.expr) -> tuple[Constant, ...]:
        opening = self._tokens[self._tokens.index(sign) + 1]
        members = written.elts if isinstance(written, ast.Tuple) else [written]
        found = tuple(map(self._node, members))
        literals = tuple(node for node in found if isinstance(node, Constant) and not isinstance(node.value, bool))
        if opening.operator != "(" or not found or len(literals) < len(found):
            wrong = next((node.position for node in found if node not in literals), opening.position)
            message = "Expected a list of number or string literals in parentheses, as in `a in (1, 2)`."
            raise error_at(self._text, wrong, f"{message} Compare columns with ==.")
        return literals

    def _call(self, node: ast.Call, arguments: Sequence[ast.expr]) -> Node:
        name = self._token(node)
        function = FUNCTIONS.get(name.text) if name.kind == "name" else None
        if function is None:
            hint, accepted = did_you_mean(name.text, FUNCTIONS), ", ".join(FUNCTIONS)
            raise error_at(self._text, name.position, f'Unknown function "{name.text}".{hint} Accepted: {accepted}.')
        least, most = function.min_arguments, function.max_arguments
        if len(arguments) < least:
            closing = self._tokens[bisect_left(self._offsets, node.end_col_offset or 0) - 1]
            message = f"{function.signature} needs at least {_arguments(least)}, found {len(arguments)}."
            raise error_at(self._text, closing.position, message)
        if most is not None and len(arguments) > most:
            message = f"{function.signature} accepts at most {_arguments(most)}, found {len(arguments)}."
            raise error_at(self._text, self._token(arguments[most]).position, message)
        return Call(function.name, tuple(map(self._node, arguments)), name.position)

    def _leaf(self, node: ast.expr) -> Node:
        index = bisect_left(self._offsets, node.col_offset)
        token = self._tokens[index]
        if node.end_col_offset != self._offsets[index] + len(self._python[index]):
            raise self._refused(self._tokens[index + 1])  # two strings, which Python would join
        if token.kind in ("name", "column"):
            return ColumnReference(token.text, token.position)
        if token.kind == "boolean":
            return Constant(token.text == "true", token.position)
        if token.kind == "string":
            return Constant(token.text, token.position)
        value = float(token.text)
        if value and not _FLOAT32_MIN <= value <= FLOAT32_MAX:
            accepted = f"0, or {_FLOAT32_MIN:g} to {FLOAT32_MAX:g}, is accepted"
            message = f"Number {token.text} is outside the range of float32: {accepted}."
            raise error_at(self._text, token.position, message)
        return Constant(value, token.position)


def _arguments(count: int) -> str:
    return f"{count} argument{'s' * (count != 1)}"
