"""The error type with messages for the user, and helpers for their wording."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from fullpass.base.redact import redact


class UserError(ValueError):
    """An error whose message is written for the user.

    Example:
        >>> fullpass.open_model("serving").predict([{"distance": 3.0}])
        Traceback (most recent call last):
            ...
        fullpass.base.errors.UserError: the table: none of the columns that the model reads is in the input. ...

    The message names the wrong item (file, row or YAML path), the received value, the accepted values and the fix. It
    is shown verbatim, without a traceback; any other exception is shown with its location. Messages end up in logs and
    notifications, so text that looks like a secret is blanked.
    """

    def __init__(self, message: object = "", *others: object) -> None:
        """Takes the message."""
        super().__init__(redact(str(message)), *others)

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that a notebook shows instead of a traceback."""
        return [f"{type(self).__name__}: {line}" if not i else line for i, line in enumerate(str(self).split("\n"))]


_SHORT, _NEAR_SHORT, _NEAR = 4, 0.66, 0.75
"""Similarity by difflib: of three letters, one may be another; of eight, two."""


class UsageError(UserError):
    """The pipeline file or the command line is wrong, for example names a node, label or format that is not known."""


def escaped(text: str) -> str:
    r"""Returns text with every character escaped that is a line break, a tab or invisible.

    Example:
        >>> escaped("fare\n(USD)")
        'fare\\n(USD)'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt or shortened name, or an empty string if no known name is near.

    Example:
        >>> did_you_mean("Trainr", ["Transform", "Trainer"]), did_you_mean("bin", ["binary"])
        (' Did you mean "Trainer"?', ' Did you mean "binary"?')

    Args:
        name: The received name; case is ignored.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = name.casefold()
    near = _NEAR_SHORT if len(folded) <= _SHORT else _NEAR
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=near)
    close += [one for one in by_folded if len(folded) > 2 and one.startswith(folded)]
    return f' Did you mean "{escaped(by_folded[close[0]])}"?' if close else ""


def listed(names: Collection[str], *, most: int = 20) -> str:
    """Returns names in one line; long lists are cut and end with the number of omitted names.

    Example:
        >>> listed(["a", "b", "c", "d"], most=2)
        'a, b and 2 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(escaped, islice(names, most))) + more


def absent_column(column: str, present: Collection[str], place: str) -> str:
    """Returns the message for a column that a place, such as "the data", does not have among those `present`."""
    columns = listed(present, most=len(present))
    return f'no column "{escaped(column)}" in {place}.{did_you_mean(column, present)} Columns: {columns}.'


@contextmanager
def prefix_errors(path: str) -> Iterator[None]:
    """Converts any error of the enclosed code into a `UserError` whose message begins with a YAML path."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:
        raise UserError(f"{path}: {type(error).__name__}: {error}") from error
