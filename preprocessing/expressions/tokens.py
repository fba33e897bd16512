"""Splits text into tokens of the expression language, and checks that their order is an expression."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from fullpass.base.errors import did_you_mean
from fullpass.preprocessing.expressions.syntax_tree import MAX_DEPTH, ExpressionError, error_at, too_deep

_KEYWORDS = ("and", "or", "not", "in", "true", "false")
_ARITHMETIC = ("+", "-", "*", "/", "%", "**")
_TESTS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<operator>\*\*|==|!=|<=|>=|[-+*/%<>(),]|(?:not\s+in|and|or|not|in)\b)
      | (?P<name>[^\W\d]\w*)
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
# The tokens accepted after a value, by the enclosing parenthesis.
_AFTER_VALUE: Mapping[str, str] = MappingProxyType(
    {
        "": "an operator or the end",
        "group": "an operator or `)`",
        "call": "an operator, `,` or `)`",
        "list": "`,` or `)`",
    }
)


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


def tokens(text: str) -> tuple[Token, ...]:
    """Returns the tokens of an expression, the last of kind `end`.

    Raises:
        ExpressionError: A character starts no token, a string is not closed, an escape is unknown, a token is not
            accepted at its position, or parentheses are nested too deeply.
    """
    found = tuple(_read(text))
    _check_order(text, found)
    return found


def _read(text: str) -> Iterator[Token]:
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


def _check_order(text: str, found: Sequence[Token]) -> None:
    """Rejects tokens whose order is not an expression; Python's parser resolves the precedence."""
    opened: list[str] = []  # Kind of each open parenthesis: a group, the arguments of a call, or a list after `in`.
    closed = ""
    complete = False  # Whether a value ends just before the token.
    for before, token in pairwise((Token("start", "", 0), *found)):
        operator, within = token.operator, opened[-1] if opened else ""
        expected = ""
        if complete and operator == "(" and before.kind == "name":
            opened.append("call")
            complete = False
        elif complete and operator == ")" and opened:
            closed = opened.pop()
        elif complete:
            tests = (*_ARITHMETIC, *_TESTS)
            if operator == "not":
                token, expected = found[found.index(token) + 1], "`in` after `not`"
            elif before.operator == ")" and closed == "list" and operator in tests:
                expected = "parentheses around the test before this"
            elif operator == ",":
                complete, expected = False, "" if within in ("call", "list") else _AFTER_VALUE[within]
            elif operator in (*tests, "and", "or") and within != "list":
                complete = False
            elif token.kind != "end" or opened:
                expected = _AFTER_VALUE[within]
        elif operator == ")" and (within, before.operator) in (("call", "("), ("list", ",")):
            complete, closed = True, opened.pop()
        elif within == "list":
            complete = token.kind == "number" or (token.kind == "string" and before.operator != "-")
            if not complete and (operator != "-" or before.operator == "-"):
                expected = "a number or string literal (compare columns with ==)"
        elif before.operator in ("in", "not in"):
            opened.append("list")
            expected = "" if operator == "(" else "`(` and a list of numbers or strings"
        elif operator == "(":
            opened.append("group")
        elif operator == "not":
            loose = before.operator in ("", "(", ",", "and", "or", "not")
            expected = "" if loose else "parentheses around `not ...` here"
        elif operator != "-":
            complete = token.kind in ("number", "name", "boolean", "column", "string")
            expected = "" if complete else "a value (a column, number, string, function or parenthesis)"
        if expected:
            hint = did_you_mean(token.text, _KEYWORDS) if token.kind == "name" else ""
            raise error_at(text, token.position, f"Expected {expected}, found {token}.{hint}")
        if len(opened) > MAX_DEPTH:
            raise too_deep(text, token.position)
