"""The rules by which two texts are the same token: 3067.0, as tools write 3067 in a column with gaps, is 3067.

Only an optional minus, digits, the decimal sign of the source and zeros are rewritten, and True and TRUE, as Python and
spreadsheets write true. 007, 1e3, +5.0 and 1.50 stay as they are, and no text is read as a number, so digits beyond
2**53 are kept. `arrow_text.as_tokens` and `tensor_ops.token_tensor` apply the rules to columns, `as_token` to texts of
the YAML.
"""

import re
from collections.abc import Iterable, Mapping

WHOLE_NUMBER: Mapping[str, str] = {".": r"^(-?[0-9]+)\.0+$", ",": r"^(-?[0-9]+),0+$"}
"""Decimal sign -> RE2 expression of a whole number with it; its group is the token."""
BOOLEANS: Mapping[str, str] = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
"""Other spelling of a boolean -> the token, which is that of Arrow and JSON."""

_WHOLE_NUMBER = {sign: re.compile(pattern.strip("^$")) for sign, pattern in WHOLE_NUMBER.items()}


def as_token(text: str, decimal: str = ".") -> str:
    """Returns the spelling that stands for a token.

    Args:
        decimal: Decimal sign of numbers in texts of the source.

    Example:
        >>> as_token("3067.0"), as_token("007"), as_token("-1.50"), as_token("True"), as_token("102,0", ",")
        ('3067', '007', '-1.50', 'true', '102')
    """
    match = _WHOLE_NUMBER[decimal].fullmatch(text)
    return match[1] if match else BOOLEANS.get(text, text)


def distinct_tokens(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the tokens of texts that must be different tokens.

    Raises:
        ValueError: Two texts are the same token.
    """
    seen: dict[str, str] = {}
    for text in texts:
        token = as_token(text)
        if token in seen:
            both = f"{seen[token]!r} and {text!r} are one token"
            raise ValueError(both if text != seen[token] else f"{text!r} is listed twice")
        seen[token] = text
    return tuple(seen)
