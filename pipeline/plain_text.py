"""Escapes text so that a terminal, a log or a variable can hold it safely."""

import re

# Control characters except tab and newline, overrides of the writing direction, and lone surrogates, which Python uses
# for bytes that are no UTF-8.
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Returns text with its control characters escaped; tabs and newlines stay.

    Example:
        >>> plain("red: \x1b[31m")
        'red: \\x1b[31m'
    """
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
