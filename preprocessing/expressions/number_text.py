"""Numbers as people write them: the one reader behind `number(text)` and `number(text, like)`.

It is a table of regular expressions and replacements that Python, Arrow and the graph (RE2) run alike, so `init`,
`check` and the run cannot read one cell as two numbers.
"""

import re
from dataclasses import dataclass
from functools import cache

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""The text of a number with a decimal point and no other sign."""
LONGEST_NUMBER = 31
"""Longest text that is read as a number; the graph's conversion fails on longer text."""
STYLES = (
    "1234.5", "1,234.5", "12,34,567.5", "1234,5", "1.234,5", "1 234.5", "1 234,5", "1'234.5", "1'234,5"
)  # fmt: skip
"""How the digits of a number can be written: the thousands sign, if any, and the decimal sign."""
BLANKS = " \t\n\r\f\v\u00a0\u2007\u2009\u202f"
"""Characters that are skipped around a number and between its parts."""
MINUS = "\\-\u2212\u2013"
"""Minus signs, in a character class."""
_ZEROS = {"k": 3, "m": 6, "b": 9, "t": 12}
_MULTIPLIERS = ("K", "M", "B", "T")
_LIKE = re.compile(
    rf"([^0-9()+{MINUS}]*)({'|'.join(map(re.escape, sorted(STYLES, key=len, reverse=True)))})([^0-9(){MINUS}]*)"
)


@dataclass(frozen=True)
class NumberText:
    """The numbers that `number(text, like)` reads.

    Attributes:
        pattern: Fits the whole of every such text.
        replacements: (pattern, replacement) pairs that turn such a text into one that fits `NUMBER`, in this order.
    """

    pattern: str
    replacements: tuple[tuple[str, str], ...]

    def read(self, text: str) -> float | None:
        """Returns the number, or None if the text is not written in this way."""
        if not re.fullmatch(self.pattern, text):
            return None
        for pattern, replacement in self.replacements:
            text = re.sub(pattern, replacement, text)
        return read_number(text)


def read_number(text: str) -> float | None:
    """Returns a number with a decimal point, without blanks around it; None if the text is none or too long."""
    return float(text) if len(text) <= LONGEST_NUMBER and re.fullmatch(NUMBER, text) else None


def wrong_like(like: str) -> str:
    """Returns what is wrong with an example of a number, as in `number(text, "$1,234.5")`; "" if nothing is."""
    if _LIKE.fullmatch(like):
        return ""
    return (
        f"an example with the digits {', '.join(STYLES[:-1])} or {STYLES[-1]}, with a currency before them, or a unit, "
        "%, + or one of K, M, B, T (for all four) after them"
    )


@cache
def number_text(like: str) -> NumberText:
    """Returns the numbers that are written like an example, such as `$1,234.5`, `1.234,5 €` or `1234.5K`.

    The signs around the digits may be absent. A minus sign or parentheses make a number negative. A text in which a
    thousands sign is not followed by a group of digits, as in "3,10", is none of them.

    Raises:
        ValueError: The example is none that `wrong_like` accepts.
    """
    match = _LIKE.fullmatch(like)
    if match is None:
        raise ValueError(f"{like!r}: expected {wrong_like(like)}")
    before, digits, after = (part.strip(BLANKS) for part in match.groups())
    group, decimal, blank = _group_of(digits), digits[-2], f"[{BLANKS}]*"
    sign, currency = f"[+{MINUS}]?", f"(?:{re.escape(before)})?" if before else ""
    written = f"(?:{_digits(digits, group, decimal)})(?:[eE][+-]?[0-9]+)?"
    multiplied = after[:1] in _MULTIPLIERS and not after[1:2].isalpha()
    multiplier, after = ("(?:[kK]|[mMbBtT][nN]?)?", after[1:].strip(BLANKS)) if multiplied else ("", after)
    unit = f"{blank}(?:{re.escape(after)})?" if after else ""
    positive = f"(?:{sign}{blank}{currency}|{currency}{blank}{sign}){blank}{written}{blank}{multiplier}{unit}"
    negative = rf"\({blank}{currency}{blank}{written}{blank}{multiplier}{unit}{blank}\)"
    parts = f"([+({MINUS}]?){blank}{currency}{blank}({sign}){blank}({written}){blank}({multiplier}){unit}"
    replacements = [
        (rf"^{blank}{parts}{blank}\)?{blank}$", r"\1\2\3\4"),
        *([(group, "")] if group else []),
        *([(",", ".")] if decimal == "," else []),
        (rf"^[{MINUS}(]", "-"),
        *(((f"[{low}{low.upper()}][nN]?$", f"e{zeros}") for low, zeros in _ZEROS.items()) if multiplied else ()),
    ]
    return NumberText(f"{blank}(?:{positive}|{negative}){blank}", tuple(replacements))


def _group_of(digits: str) -> str:
    """Returns the thousands sign of a style as a character class; "" without one."""
    sign = digits[1] if not digits[1].isdigit() else digits[2] if not digits[2].isdigit() else ""
    return {"": "", " ": f"[{BLANKS}]", "'": "['\u2019]"}.get(sign, f"[{sign}]")


def _digits(digits: str, group: str, decimal: str) -> str:
    """Returns the pattern of the digits: with thousands signs at every place where they belong, or without any."""
    grouped = f"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+"
    if digits.count(",") > 1:
        grouped = f"[1-9][0-9]?(?:{group}[0-9]{{2}})*{group}[0-9]{{3}}"
    whole = f"(?:{grouped}|[0-9]+)" if group else "[0-9]+"
    point = re.escape(decimal)
    return f"{whole}(?:{point}[0-9]*)?|{point}[0-9]+"
