"""Lists in the text of a cell: values between separators, or a list as Python and JSON write it.

Python, Arrow and the graph (RE2) run the same replacements, so labels, gate, training and serving read the same items.
"""

import re
from typing import NamedTuple

LIST_EXAMPLE = "['a', 'b']"
"""The `separator` of lists in brackets."""
_EXAMPLE = re.compile(r"\[.+\]", re.DOTALL)
_ITEM = r"""(?:'((?:[^'\\]|\\.)*)'\s*,?|"((?:[^"\\]|\\.)*)"\s*,?|([^\s,'"][^,]*)(?:,|$))\s*"""
_BETWEEN = "\x1f"
_JOINED_BY = "|"


class ListText(NamedTuple):
    """How a cell is split into items.

    replacements: (pattern, replacement) pairs of RE2 that run on a cell before it is split, in this order.
    separator: The text between two items; None: any blanks.
    joined_by: The text between the items of a cell that Fullpass writes.
    """

    replacements: tuple[tuple[str, str], ...]
    separator: str | None
    joined_by: str


def list_text(separator: str | None) -> ListText:
    """Returns how cells are split that a YAML declares with `separator`.

    A text in brackets, as `['a', 'b']`, is an example: of lists in brackets, parentheses or braces, whose items may
    be in single or double quotes. Commas in quotes are part of an item, and a backslash before a quote is left out.

    Example:
        >>> list_text("['a', 'b']").joined_by, list_text("; ").separator
        ('|', '; ')
    """
    if separator is None or not _EXAMPLE.fullmatch(separator):
        return ListText((), separator, separator or " ")
    replacements = (
        (r"^\s*[\[({]\s*|\s*[\])}]\s*$", ""),
        (_ITEM, rf"\1\2\3{_BETWEEN}"),
        (r"""\\(['"\\])""", r"\1"),
    )
    return ListText(replacements, _BETWEEN, _JOINED_BY)


def split_items(cell: str, separator: str | None) -> list[str]:
    """Returns the items of a cell, with the blanks around them."""
    form = list_text(separator)
    for pattern, replacement in form.replacements:
        cell = re.sub(pattern, replacement, cell)
    return cell.split(form.separator or None)
