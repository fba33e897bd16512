"""Numbers as people write them: the one reader behind `number(text)`, `number(text, like)` and `format` of a number.

It is a table of regular expressions and replacements that Python, Arrow and the graph (RE2) run alike, so `init`,
`check`, the run and a served model cannot read one cell as two numbers.
"""

import re
from collections.abc import Sequence
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
BOUND = "(?:<=|>=|[<>\u2264\u2265~\u2248]|[cC][aA]?\\.|[cC][aA] |[aA]pprox\\.?|[aA]bout)"
"""What says that a number is a bound or not exact."""
MARKS = "*\u2020\u2021\u00a7\u00b6#"
"""Signs of a footnote, in a character class."""
NOTE = rf"(?:\[[^\[\]]*\]|\([^()]*\)|[{MARKS}]+)"
"""A note behind a number."""
SPREAD = "(?:\u00b1|\\+/-)"
"""The sign between a number and its uncertainty."""
_ZEROS = {"k": 3, "m": 6, "b": 9, "t": 12}
_MULTIPLIERS = ("K", "M", "B", "T")
_BLANK = f"[{BLANKS}]*"
_SIGNS = f"[+{MINUS}]"
_TEXT_MARK = "['\u2019]"
"""What spreadsheets put before a number that they keep as text."""
_LIKE = re.compile(
    rf"({BOUND}?)([^0-9()\[\]+{MINUS}]*)({'|'.join(map(re.escape, sorted(STYLES, key=len, reverse=True)))})"
    rf"((?:{_BLANK}{SPREAD}{_BLANK}[0-9.,]+)?)((?:{_BLANK}[{MINUS}])?)([^0-9()\[\]{MARKS}{MINUS}]*)((?:{NOTE}{_BLANK})?)"
    f"([{MINUS}]?)"
)


@dataclass(frozen=True)
class NumberText:
    """The numbers that `number(text, like)` reads.

    Attributes:
        pattern: Fits the whole of every such text.
        replacements: (pattern, replacement) pairs that turn such a text into as many numbers that fit `NUMBER` as there
            are units, with a blank between them. They run in this order.
        units: What one of each of these numbers counts in the result, which is their sum.
    """

    pattern: str
    replacements: tuple[tuple[str, str], ...]
    units: tuple[float, ...] = (1.0,)

    def read(self, text: str) -> float | None:
        """Returns the number, or None if the text is not written in this way."""
        if not re.fullmatch(self.pattern, text):
            return None
        for pattern, replacement in self.replacements:
            text = re.sub(pattern, re.sub(r"\\(\d)", r"\\g<\1>", replacement), text)
        numbers = [read_number(part) for part in text.split(" ")]
        found = [unit * n for unit, n in zip(self.units, numbers, strict=True) if n is not None]
        return sum(found) if len(found) == len(numbers) else None

    def part(self, index: int) -> tuple[str, str]:
        """Returns the pattern and replacement that leave one of the numbers that `replacements` make."""
        return rf"^(?:[^ ]* ){{{index}}}([^ ]*).*$", r"\1"


def read_number(text: str) -> float | None:
    """Returns a number with a decimal point, without blanks around it; None if the text is none or too long."""
    return float(text) if len(text) <= LONGEST_NUMBER and re.fullmatch(NUMBER, text) else None


def wrong_like(like: str) -> str:
    """Returns what is wrong with an example of a number, as in `number(text, "$1,234.5")`; "" if nothing is."""
    if _LIKE.fullmatch(like) or _sum_like(like) is not None:
        return ""
    return (
        f"an example with the digits {', '.join(STYLES[:-1])} or {STYLES[-1]}, with a currency before them, or a unit, "
        "%, + or one of K, M, B, T (for all four) after them; with < or ~ before it, or a minus (1234.5-), an "
        f"uncertainty (1234.5±0.1) or a note (1234.5[1]) behind it; or {', '.join(SUMS[:-1])} or {SUMS[-1]}"
    )


def decimal_sign(like: str) -> str:
    """Returns the decimal sign of an example that `wrong_like` accepts."""
    match = _LIKE.fullmatch(like)
    return match[3][-2] if match is not None else "."


def written_unit(like: str) -> str:
    """Returns the unit of the numbers that are sums of parts: minutes or inches; "" for other numbers."""
    units = number_text(like).units
    return "" if len(units) == 1 else "inches" if _FOOT in units else "minutes"


@cache
def number_text(like: str) -> NumberText:
    """Returns the numbers that are written like an example, such as `$1,234.5`, `1.234,5 €`, `1234.5K` or `2h 10m`.

    The signs around the digits may be absent, and a dash may stand for decimals, as in 12.-. A minus sign or
    parentheses make a number negative. A text in which a thousands sign is not followed by a group of digits, as in
    "3,10", is none of them. A bound counts as its number; an uncertainty and a note are left out. A number alone counts
    as minutes or inches among durations or lengths.

    Raises:
        ValueError: The example is none that `wrong_like` accepts.
    """
    match = _LIKE.fullmatch(like)
    if match is not None:
        return _plain(*(part.strip(BLANKS) for part in match.groups()))
    if (found := _sum_like(like)) is None:
        raise ValueError(f"{like!r}: expected {wrong_like(like)}")
    return found


def _plain(
    bound: str, before: str, digits: str, spread: str, minus: str, after: str, note: str, last_minus: str
) -> NumberText:
    """Returns the numbers with one part, from the parts of their example; "" for an absent part."""
    group, decimal = _group_of(digits), digits[-2]
    multiplied = after[:1] in _MULTIPLIERS and not after[1:2].isalpha()
    multiplier, after = ("[kK]|[mMbBtT][nN]?", after[1:].strip(BLANKS)) if multiplied else ("", after)
    written = f"(?:{_digits(digits, group, decimal)})(?:[eE][+-]?[0-9]+)?"
    start = _before(_TEXT_MARK) + (_before(BOUND) if bound else "")
    sign, currency = _before(_SIGNS), _before(re.escape(before)) if before else ""
    minus += last_minus
    behind = _behind(_SIGNS) if minus else ""
    end = "".join(_behind(part) for part in (multiplier, re.escape(after)) if part)
    amount = written + (_behind(rf"{SPREAD}{_BLANK}[0-9.,]+") if spread else "") + behind + end + behind
    notes = f"(?:{_BLANK}{NOTE})*" if note else ""
    one_of = f"{sign}{currency}|{currency}{sign}" if currency else sign
    pattern = rf"{_BLANK}{start}(?:(?:{one_of}){amount}|\({_BLANK}{currency}{amount}{_BLANK}\)){notes}{_BLANK}"
    kept = [rf"{_BLANK}{start}", rf"(?:([+({MINUS}]){_BLANK})?", currency, rf"(?:({_SIGNS}){_BLANK})?({written})"]
    kept += [_behind(rf"{SPREAD}{_BLANK}[0-9.,]+") if spread else "", f"(?:{_BLANK}({_SIGNS}))?" if minus else "()"]
    kept += [f"(?:{_BLANK}({multiplier}))?" if multiplier else "()", _behind(re.escape(after)) if after else ""]
    kept += [f"(?:{_BLANK}({_SIGNS}))?" if minus else "()", rf"{_BLANK}\)?{notes}{_BLANK}"]
    replacements = [
        (f"^{''.join(kept)}$", r"\1\2\4\6\3\5"),
        (f"{re.escape(decimal)}[{MINUS}]", ""),
        *([(group, "")] if group else []),
        *([(",", ".")] if decimal == "," else []),
        (rf"^[{MINUS}(]", "-"),
        *(((f"[{low}{low.upper()}][nN]?$", f"e{zeros}") for low, zeros in _ZEROS.items()) if multiplied else ()),
    ]
    return NumberText(pattern, tuple(replacements))


def _before(part: str) -> str:
    """Returns the pattern of a part that may stand before the rest, with blanks behind it."""
    return f"(?:{part}{_BLANK})?"


def _behind(part: str) -> str:
    """Returns the pattern of a part that may stand behind the rest, with blanks before it."""
    return f"(?:{_BLANK}(?:{part}))?"


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
    return f"{whole}(?:{point}(?:[{MINUS}]|[0-9]*))?|{point}[0-9]+"


_WHOLE, _DECIMAL = "[0-9]+", r"[0-9]+(?:\.[0-9]*)?"
_SIXTY = "[0-5][0-9]"
_AND = f"{_BLANK}(?:(?:,|and){_BLANK})?"


def _word(*words: str) -> str:
    """Returns the pattern of one of several words, in any case, with blanks before and a full stop behind it."""
    either = "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else re.escape(c) for c in word) for word in words)
    return rf"{_BLANK}(?:{either})\.?"


def _one_or_more(parts: Sequence[str], between: str) -> str:
    """Returns the pattern of some of several parts, at least one, in their order."""
    later = ["".join(f"(?:{between}{part})?" for part in parts[i + 1 :]) for i in range(len(parts))]
    return "|".join(f"{part}{rest}" for part, rest in zip(parts, later, strict=True))


def _in_words(parts: Sequence[tuple[str, str]], alone: str) -> tuple[str, str]:
    """Returns the pattern of numbers with words behind them, and the pattern with a group for each number.

    Args:
        parts: Pattern of a number, and of the word behind it.
        alone: Pattern of such texts in which the last number has no word.
    """
    groups = _AND.join(f"(?:({number}){word})?" for number, word in parts)
    return f"{_one_or_more([number + word for number, word in parts], _AND)}|{alone}", f"{groups}{_AND}"


_DAYS, _HOURS = _word("days", "day", "d"), _word("hours", "hour", "hrs", "hr", "h")
_MINUTES, _SECONDS = _word("minutes", "minute", "mins", "min", "m"), _word("seconds", "second", "secs", "sec", "s")
_FEET = _word("feet", "foot", "ft", "'", "\u2019", "\u2032")
_INCHES = _word("inches", "inch", "in", '"', "\u201d", "\u2033", "''", "\u2019\u2019")
_OF_DAYS = ((_DECIMAL, _DAYS), (_DECIMAL, _HOURS), (_DECIMAL, _MINUTES), (_DECIMAL, _SECONDS))
_OF_FEET = ((_DECIMAL, _FEET), (_DECIMAL, _INCHES))
_ISO_TIME = _one_or_more((f"{_WHOLE}[hH]", f"{_WHOLE}[mM]", f"{_DECIMAL}[sS]"), "")
_ISO_DAYS = f"{_WHOLE}[dD]"
_ISO_GROUPS = f"(?:({_WHOLE})[hH])?(?:({_WHOLE})[mM])?(?:({_DECIMAL})[sS])?"
_DAY, _HOUR, _MINUTE, _SECOND = 1440.0, 60.0, 1.0, 1 / 60
"""In minutes."""
_FOOT, _INCH = 12.0, 1.0
"""In inches."""
_SUMS = {
    "2h 10m": (*_in_words(_OF_DAYS, f"{_WHOLE}{_HOURS}{_BLANK}{_SIXTY}"), (_DAY, _HOUR, _MINUTE, _SECOND)),
    "PT2H10M": (
        f"[pP](?:{_ISO_DAYS}(?:[tT](?:{_ISO_TIME}))?|[tT](?:{_ISO_TIME}))",
        f"(?:[pP](?:({_WHOLE})[dD])?[tT]?{_ISO_GROUPS})?",
        (_DAY, _HOUR, _MINUTE, _SECOND),
    ),
    "hh:mm": (f"{_WHOLE}:{_SIXTY}", f"(?:({_WHOLE}):({_SIXTY}))?", (_HOUR, _MINUTE)),
    "hh:mm:ss": (
        rf"(?:{_WHOLE}{_DAYS}{_AND})?{_WHOLE}:{_SIXTY}:{_SIXTY}(?:\.[0-9]*)?",
        rf"(?:(?:({_WHOLE}){_DAYS}{_AND})?({_WHOLE}):({_SIXTY}):({_SIXTY}(?:\.[0-9]*)?))?",
        (_DAY, _HOUR, _MINUTE, _SECOND),
    ),
    "mm:ss": (
        rf"{_WHOLE}:{_SIXTY}(?:\.[0-9]*)?",
        rf"(?:({_WHOLE}):({_SIXTY}(?:\.[0-9]*)?))?",
        (_MINUTE, _SECOND),
    ),
    "5'11\"": (*_in_words(_OF_FEET, f"{_WHOLE}{_FEET}{_BLANK}(?:1[01]|[0-9])"), (_FOOT, _INCH)),
}
"""Example -> pattern of the texts without a sign, pattern with a group for each part, and what one of a part counts.

Source of PT2H10M: ISO 8601; its years and months have no fixed length.
"""
SUMS = tuple(_SUMS)
"""Numbers in several parts: durations, which become minutes, and feet and inches, which become inches."""


def _sum_like(like: str) -> NumberText | None:
    """Returns the sums that an example stands for; a clock is named, because 2:10 may be hours or minutes."""
    for example, (pattern, groups, units) in _SUMS.items():
        if like == example or (":" not in example and re.fullmatch(pattern, like.strip(BLANKS))):
            return _sum(pattern, groups, units)
    return None


def _sum(pattern: str, groups: str, units: tuple[float, ...]) -> NumberText:
    """Returns sums of parts, or of a number alone, which counts itself; a zero before the digits stands for none."""
    numbers = " ".join(rf"\10\{group}" for group in range(2, len(units) + 3))
    taken = f"^{_BLANK}(?:({_SIGNS}){_BLANK})?{groups}({_DECIMAL})?{_BLANK}$"
    whole = f"{_BLANK}{_before(_SIGNS)}(?:{pattern}|{_DECIMAL}){_BLANK}"
    return NumberText(whole, ((taken, numbers), (f"[{MINUS}]", "-")), (*units, 1.0))
