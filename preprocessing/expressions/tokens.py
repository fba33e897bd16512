"""Splits text into tokens of the expression language."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fullpass.preprocessing.expressions.syntax_tree import ExpressionError, error_at

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
