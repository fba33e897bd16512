"""The rule by which two texts are the same token: 3067.0, as tools write 3067 in a column with gaps, is 3067.

Only an optional minus, digits, a point and zeros are rewritten. 007, 1e3, +5.0 and 1.50 stay as they are, and no text
is read as a number, so digits beyond 2**53 are kept. `arrow_text.as_tokens` and `tensor_ops.token_tensor` apply the
rule to columns, `as_token` to texts of the YAML.
"""

import re
from collections.abc import Iterable

WHOLE_NUMBER = r"^(-?[0-9]+)\.0+$"
"""RE2 expression of a whole number with a point; its group is the token."""

_WHOLE_NUMBER = re.compile(WHOLE_NUMBER.strip("^$"))


def as_token(text: str) -> str:
    """Returns the spelling that stands for a token.

    Example:
        >>> as_token("3067.0"), as_token("007"), as_token("-1.50")
        ('3067', '007', '-1.50')
    """
    match = _WHOLE_NUMBER.fullmatch(text)
    return match[1] if match else text


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
