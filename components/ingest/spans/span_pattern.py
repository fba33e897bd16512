"""Paths with `{SPAN}` or date fields, which contain the span of a file.

A span is a part of the data that arrives as a whole, such as a day. Its number counts days from 1970-01-01, as in TFX.
Months are counted from 1970-01, hours from 1970-01-01T00. A year is its own number, and `{SPAN}` is the number itself.
"""

import glob
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np

from fullpass.base.errors import UsageError, UserError, did_you_mean
from fullpass.components.ingest.config import Unit
from fullpass.components.ingest.sources.path_matches import with_single_stars
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY


class _Dates(NamedTuple):
    """Spans of a unit with dates. form: an example. numpy: NumPy's unit. shortest, longest: length in days."""

    form: str
    numpy: Literal["Y", "M", "D", "h"]
    shortest: float
    longest: float


_DATED: Mapping[str, _Dates] = {
    "year": _Dates("2013", "Y", 365, 366),
    "month": _Dates("2013-01", "M", 28, 31),
    "day": _Dates("2013-01-05", "D", 1, 1),
    "hour": _Dates("2013-01-05T07", "h", 1 / 24, 1 / 24),
}
"""Unit -> its spans, the longest unit first: each has one more part of a date than the one before."""
FORMS: Mapping[str, str] = {"number": "5", **{unit: dates.form for unit, dates in _DATED.items()}}
"""An example of a span in each unit."""
_NUMBERS = (-(2**63) + 1, 2**63 - 1)
"""The first and the last number: int64 without the lowest, which means no span."""
_HOURS = np.array(["0001-01-01T00", "9999-12-31T23"], "datetime64[us]").astype(np.int64)
"""The first and the last hour that can be written as a date, in microseconds since 1970-01-01."""
_ALL_SPANS = 1 << 40
"""More spans than there are, of any unit; sums with a number of a span still fit into int64."""
_DATES = ("YYYY", "MM", "DD", "HH")
_FIELDS = ("SPAN", "VERSION", *_DATES)
_FIELD = re.compile(r"\{([A-Za-z]+)(?::([^{}]*))?\}")
_SHOWN = 6
"""Ranges of spans in a message."""
_EPOCH = 1970
_YEAR_DIGITS = 4
_PROTOCOL = re.compile(r"^[a-z][a-z0-9+.-]*:/+")


def number_of(unit: Unit, parts: Sequence[int]) -> int:
    """Returns the number of a span from its parts: year, month, day and hour, or the number itself.

    Raises:
        ValueError: There is no such date, or the number does not fit into 64 bits.
    """
    if unit == "number":
        return _checked(unit, parts[0])
    year, month, day, hour = (*parts, *(1, 1, 0)[len(parts) - 1 :])
    moment = np.datetime64(datetime(year, month, day, hour), "us")
    return int(spans_of(unit, moment.astype(np.int64)))


def spans_of(unit: Unit, moments: np.ndarray | np.int64) -> np.ndarray:
    """Returns the number of the span of each moment, int64; moments are in microseconds since 1970-01-01, int64."""
    numbers = moments.astype("datetime64[us]").astype(f"datetime64[{_DATED[unit].numpy}]").astype(np.int64)
    return numbers + _EPOCH if unit == "year" else numbers


def _checked(unit: Unit, number: int) -> int:
    """Returns the number of a span.

    Raises:
        ValueError: No span of the unit has this number.
    """
    first, last = _NUMBERS if unit == "number" else spans_of(unit, _HOURS).tolist()
    if not first <= number <= last:
        raise ValueError(f"{number} is outside {first}..{last}")
    return number


def label_of(unit: Unit, number: int) -> str:
    """Returns a span as text for people: `2013-01-05` for day 15710."""
    if unit == "number":
        return str(number)
    return str(np.datetime64(number - _EPOCH if unit == "year" else number, _DATED[unit].numpy))


def ranges(unit: Unit, numbers: Collection[int]) -> str:
    """Returns spans as text, consecutive ones as `A to B`; if there are many ranges, only the first and last few."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = [" to ".join(label_of(unit, end) for end in run) for run in runs]
    if len(texts) > _SHOWN:
        texts = [*texts[: _SHOWN // 2], "...", *texts[-_SHOWN // 2 :]]
    return ", ".join(texts)


def described(unit: Unit, number: int) -> str:
    """Returns a span in both forms, `2013-01-05 (span 15710)`, or in one if they are equal."""
    label = label_of(unit, number)
    return label if label == str(number) else f"{label} (span {number})"


def parse_span(unit: Unit, text: str) -> int:
    """Returns the number of a span written as a date or as a number.

    Raises:
        UserError: The text is neither.
    """
    digits = r"(\d+)" if unit == "number" else re.sub(r"\d+", lambda part: rf"(\d{{{len(part[0])}}})", FORMS[unit])
    match = re.fullmatch(digits, text.strip())
    try:
        if match is not None:
            return number_of(unit, [int(part) for part in match.groups()])
        if re.fullmatch(r"-?\d+", text.strip()):
            return _checked(unit, int(text))
    except ValueError as error:
        raise UsageError(f"span {text!r}: there is no such {unit}: {error}.") from None
    or_date = f"a {unit} such as {FORMS[unit]}, or its number" if unit != "number" else "a number"
    raise UsageError(f"span {text!r}: spans of this source are written as {or_date}.")


@dataclass(frozen=True)
class SpanPattern:
    """One path with span fields.

    Attributes:
        regex: Regular expression of the fields in a path without its protocol.
        folders: Whether the path may match folders.
    """

    written: str
    glob: str
    regex: re.Pattern[str]
    unit: Unit
    versioned: bool
    folders: bool

    def span_and_version(self, path: str) -> tuple[int, int] | None:
        """Returns the span and the version of a path, version 0 if the pattern has none; None for no match.

        Raises:
            UserError: The fields of the path are no valid date or number.
        """
        match = self.regex.fullmatch(_PROTOCOL.sub("", path))
        if match is None:
            return None
        groups = match.groupdict()
        names = ["SPAN"] if self.unit == "number" else [name for name in _DATES if name in groups]
        try:
            number = number_of(self.unit, [int(groups[name]) for name in names])
            return number, number_of("number", [int(groups["VERSION"])]) if self.versioned else 0
        except ValueError as error:
            what = "number" if self.unit == "number" else "date"
            raise UserError(
                f"data.source.path: {path} matches {self.written!r}, but its {what} is invalid: {error}. Rename the "
                "file, or narrow the pattern."
            ) from None


def has_fields(path: str) -> bool:
    """Returns whether a path contains text that looks like a span field."""
    return _FIELD.search(path) is not None


def parse_pattern(written: str, folder: str, pattern: str) -> SpanPattern:
    """Parses a path with span fields.

    Args:
        written: The path as in the YAML, for messages.
        folder: Folder at which the path starts, with / at its end; it contains no fields and no glob.
        pattern: The rest; `folder` + `pattern` is an absolute path or an address.

    Raises:
        UserError: A field is unknown, fields contradict each other, the end of a field is ambiguous, or there are too
            many stars.
    """
    pattern = with_single_stars(pattern)
    if any(len(_STARS.findall(name)) > _MOST_STARS for name in pattern.split("/")):
        raise _wrong(written, f"has a name with more than {_MOST_STARS} stars. Merge some: `a_*` matches `a_b_c` too.")
    if pattern.count("**/") > _MOST_STARS:
        raise _wrong(written, f"has `**/` more than {_MOST_STARS} times. Merge some: `**/` matches any folders.")
    tokens = _tokens(written, pattern)
    fields = {token.name: token for token in tokens if isinstance(token, _Field)}
    unit = _unit(written, fields)
    last = _FIELD.sub("", pattern.rstrip("/").rsplit("/", 1)[-1])
    return SpanPattern(
        written=written,
        glob=glob.escape(folder) + _glob(tokens),
        regex=re.compile(re.escape(folder) + _regex(written, tokens)),
        unit=unit,
        versioned="VERSION" in fields,
        folders=not glob.has_magic(last),
    )


@dataclass(frozen=True)
class _Field:
    name: str
    width: int | None


def _tokens(written: str, path: str) -> list[_Field | str]:
    tokens: list[_Field | str] = []
    end = 0
    for found in _FIELD.finditer(path):
        tokens += [path[end : found.start()]] if found.start() > end else []
        tokens.append(_field(written, found))
        end = found.end()
    return tokens + ([path[end:]] if end < len(path) else [])


def _field(written: str, found: re.Match[str]) -> _Field:
    name, width = found[1], found[2]
    if name not in _FIELDS:
        hint = did_you_mean(name.upper(), _FIELDS)
        accepted = ", ".join(f"{{{field}}}" for field in _FIELDS)
        raise _wrong(written, f"there is no field {found[0]}.{hint} Accepted: {accepted}.")
    if width is None:
        return _Field(name, None)
    if name in _DATES or not width.isdigit() or not int(width):
        raise _wrong(written, f"{found[0]}: only SPAN and VERSION take a width, a number of digits such as {{SPAN:4}}.")
    return _Field(name, int(width))


def _unit(written: str, fields: Mapping[str, _Field]) -> Unit:
    dates = [name for name in _DATES if name in fields]
    if "SPAN" in fields and dates:
        raise _wrong(written, f"has {{SPAN}} and {{{dates[0]}}}. A span is a number or a date; keep one of them.")
    if "SPAN" in fields:
        return "number"
    if not dates:
        raise _wrong(written, "has {VERSION} but no {SPAN} and no date. A version belongs to a span.")
    missing = next((name for name in _DATES[: _DATES.index(dates[-1])] if name not in fields), None)
    if missing is not None:
        raise _wrong(written, f"has {{{dates[-1]}}} but no {{{missing}}}, so it is not a date. Add {{{missing}}}.")
    units: list[Any] = list(_DATED)
    return units[len(dates) - 1]


def _glob(tokens: Sequence[_Field | str]) -> str:
    parts: list[str] = []
    for token in tokens:
        if isinstance(token, str):
            # The glob of a field of any width already ends with a star.
            part = token[1:] if token.startswith("*") and parts and parts[-1] == "[0-9]*" else token
        elif token.width or token.name == "YYYY":
            part = "[0-9]" * (token.width or _YEAR_DIGITS)
        else:
            part = "[0-9]*"
        parts.append(part)
    return "".join(parts)


def _regex(written: str, tokens: Sequence[_Field | str]) -> str:
    parts, seen = [], set()
    for position, token in enumerate(tokens):
        if isinstance(token, str):
            parts.append(_literal(_PROTOCOL.sub("", token) if position == 0 else token))
        elif token.name in seen:
            parts.append(f"(?P={token.name})")
        else:
            before = tokens[position - 1] if position else ""
            behind = tokens[position + 1] if position + 1 < len(tokens) else ""
            parts.append(f"(?P<{token.name}>{_digits(written, token, before, behind)})")
            seen.add(token.name)
    return "".join(parts)


def _digits(written: str, field: _Field, before: _Field | str, behind: _Field | str) -> str:
    """Returns the regular expression of a field; a field without a width matches a maximal run of digits."""
    if field.width or field.name == "YYYY":
        return rf"\d{{{field.width or _YEAR_DIGITS}}}"
    touching = [
        side
        for side in (
            before[-1:] if isinstance(before, str) else before,
            behind[:1] if isinstance(behind, str) else behind,
        )
        if isinstance(side, _Field) or side.isdigit()
    ]
    if field.name in _DATES:
        globbed = isinstance(before, str) and before[-1:] in "*?]" or isinstance(behind, str) and behind[:1] in "*?["
        return r"\d{2}" if touching or globbed else r"(?<!\d)\d{1,2}(?!\d)"
    if touching:
        raise _wrong(
            written,
            f"the end of {{{field.name}}} is ambiguous, because digits are next to it. Give the width, such as "
            f"{{{field.name}:4}}.",
        )
    return r"(?<!\d)\d+(?!\d)"


_MOST_STARS = 3
"""Most stars in a name with a span: the time of a match grows by the length of the name with each of them."""
_STARS = re.compile(r"\*+")
_GLOB_TOKEN = re.compile(r"\*\*/|\*+|\?|\[[^\]]+\]|[^*?\[]+|\[")


def _literal(text: str) -> str:
    parts = []
    for token in _GLOB_TOKEN.findall(text):
        if token == "**/":
            parts.append(r"(?:.*/)?")
        elif token.startswith("*"):
            parts.append(r".*" if token == "**" else r"[^/]*")
        elif token == "?":
            parts.append(r"[^/]")
        elif token.startswith("[") and token not in ("[", "[!]"):
            inside = re.sub(r"([\[\\^&~|])", r"\\\1", token[1:-1].removeprefix("!"))
            parts.append(f"[{'^' if token[1] == '!' else ''}{inside}]")
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _wrong(written: str, what: str) -> UserError:
    return UserError(f"data.source.path: {written!r} {what}")


def spans_at(unit: Unit | None, offset: int) -> tuple[int, int]:
    """Returns the first and the last span, relative to a row's own, that may hold a time this far from the row's.

    One more on either side counts, as for `spans_before`. Spans without dates are all in reach.

    Example:
        >>> spans_at("day", 7 * 86_400_000_000), spans_at("day", -86_400_000_000), spans_at("day", 0)
        ((6, 8), (-2, 0), (0, 0))

    Args:
        offset: In microseconds, negative for earlier times.
    """
    if unit is None or not offset:
        return 0, 0
    if unit == "number":
        return -_ALL_SPANS, _ALL_SPANS
    days = abs(offset) / MICROSECONDS_PER_DAY
    nearest, farthest = math.floor(days / _DATED[unit].longest) - 1, math.ceil(days / _DATED[unit].shortest) + 1
    return (nearest, farthest) if offset > 0 else (-farthest, -nearest)


def spans_before(unit: Unit | None, longest: int | None) -> int:
    """Returns how many spans before its own hold the events that a row sees.

    One more than its length counts, as a span is a day of local time and its rows may have UTC times. Spans without
    dates, and a history without a limit, have all earlier ones.

    Example:
        >>> spans_before("day", 7 * 86_400_000_000)
        8

    Args:
        longest: Greatest age of an event, in microseconds.
    """
    if unit is None:
        return 0
    if unit == "number" or longest is None:
        return _ALL_SPANS
    return math.ceil(longest / (_DATED[unit].shortest * MICROSECONDS_PER_DAY)) + 1
