"""Shows the characters that change the direction of writing, with which a name can be displayed as another one."""

import re

DIRECTION_MARKS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm, as ranges of a character class."""
_MARK = re.compile(f"[{DIRECTION_MARKS}]")


def with_marks_shown(text: str) -> str:
    r"""Returns text in which each mark of the direction of writing is an escape.

    Example:
        >>> with_marks_shown("invoice\u202efdp.exe")
        'invoice\\u202efdp.exe'
    """
    return _MARK.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
