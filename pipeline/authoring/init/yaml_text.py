"""Writes a pipeline file as text, with a reason for every line."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullpass.base.errors import escaped
from fullpass.preprocessing.expressions.syntax_tree import one_line

_WIDTH = 120
"""Characters of a line."""
_COMMENT_AT = 46
"""Characters of an entry beside which reasons are aligned."""
_PLAIN = re.compile(r"(\.{0,2}/)?[A-Za-z_][\w/.%-]*( [\w/.%-]+)*", re.ASCII)
_ENTRIES = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[^,"'])+(?:, |$)""")
_WORDS = frozenset("true false null yes no on off y n".split())


@dataclass(frozen=True)
class YamlLine:
    """An entry of the YAML: its key, its value as plain data, and its reason, which is written as a comment."""

    name: str
    value: Any
    why: str = ""


@dataclass(frozen=True)
class Draft:
    """The content of a pipeline file to write.

    A line that begins with # is valid YAML without the #. A remark on its own line begins with ##.

    Attributes:
        left_out: Omitted columns, with the feature that each could be, or None.
        unread: Derived columns of omitted features.
        forecast: The label as a later value, as a comment.
        of_forecast: Its features, as comments.
    """

    name: str
    head: Sequence[str]
    source: Sequence[YamlLine]
    derive: Sequence[YamlLine]
    data: Sequence[YamlLine]
    splits: Sequence[YamlLine]
    label: YamlLine
    features: Sequence[YamlLine]
    left_out: Sequence[YamlLine]
    sequences: Sequence[YamlLine]
    rest: Sequence[YamlLine]
    joins: Sequence[YamlLine] = ()
    unread: Sequence[YamlLine] = ()
    forecast: YamlLine | None = None
    of_forecast: Sequence[YamlLine] = ()


def yaml_of(draft: Draft) -> str:
    """Returns the text of the file."""
    return "\n".join(_lines(draft)) + "\n"


def flow(value: Any) -> str:
    """Returns plain data as YAML on one line.

    Example:
        >>> flow({"type": "number", "transforms": [{"clip": {"min": 0}}, "log1p"], "missing": "?"})
        '{type: number, transforms: [{clip: {min: 0}}, log1p], missing: "?"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return _text(value) if isinstance(value, str) else _number(value)


def _lines(draft: Draft) -> Iterator[str]:
    yield from (f"## {one_line(line)}" for line in draft.head)
    yield f"name: {flow(draft.name)}"
    yield ""
    yield "data:"
    yield "  source:"
    yield from _block(draft.source, "    ")
    if draft.joins:
        yield "  joins:"
        yield from _block(draft.joins, "    ")
    if draft.derive or draft.unread:
        yield "  derive:" if draft.derive else "  # derive:"
        yield from _block(draft.derive, "    ")
        yield from _block(draft.unread, "    ", mark="# ")
    yield from _block(draft.data, "  ")
    yield from _block(draft.splits, "  ", mark="# ")
    yield ""
    yield from _block([draft.label], "")
    yield from _block([draft.forecast] if draft.forecast else [], "", mark="# ")
    yield ""
    yield "features:"
    yield from _block(draft.features, "  ")
    yield from _block(draft.of_forecast, "  ", mark="# ")
    if draft.left_out:
        yield ""
        yield "  ## Left out:"
        yield from _block([line for line in draft.left_out if line.value is not None], "  ", mark="# ")
        yield from (f"  ## {line.name}: {one_line(line.why)}" for line in draft.left_out if line.value is None)
    if draft.sequences:
        yield ""
        yield "sequences:"
        yield from _block(draft.sequences, "  ")
    for line in draft.rest:
        yield ""
        yield from _block([line], "")


def _block(lines: Sequence[YamlLine], indent: str, *, mark: str = "") -> Iterator[str]:
    """Yields entries with aligned reasons at the end of their lines; a reason that is too long goes above its line."""
    written = [f"{indent}{mark}{_text(line.name)}: {flow(line.value)}" for line in lines]
    at = max((len(text) for text in written if len(text) <= _COMMENT_AT), default=0) + 2
    for line, text in zip(lines, written, strict=True):
        why = one_line(line.why)
        column = max(at, len(text) + 2)
        if not why:
            yield from _wrapped(text)
        elif column + 2 + len(why) <= _WIDTH:
            yield text.ljust(column) + "# " + why
        else:
            yield from textwrap.wrap(why, _WIDTH, initial_indent=f"{indent}## ", subsequent_indent=f"{indent}## ")
            yield from [text] if mark else _wrapped(text)


def _wrapped(text: str) -> Iterator[str]:
    """Yields a line, wrapped if it is too long: broken after commas, outside of quotes."""
    margin = " " * (1 + min((text.find(bracket) for bracket in "{[" if bracket in text), default=0))
    line = ""
    for entry in _ENTRIES.findall(text):
        if line.strip() and len(line) + len(entry.rstrip()) > _WIDTH:
            yield line.rstrip()
            line = margin
        line += entry
    yield line


def _text(text: str) -> str:
    """Returns a string as a YAML scalar that parses to this string in flow and block style."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if '"' in text and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + escaped(re.sub(r'["\\]', r"\\\g<0>", text)) + '"'


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}" if value == float(f"{value:.6g}") else repr(value)
