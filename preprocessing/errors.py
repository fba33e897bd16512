"""The error that is written for the user, and the words it shares."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from fullpass.preprocessing.secrets.redact import redact


class UserError(ValueError):
    """An error whose message is written for the user.

    The message names what is wrong (file, row or YAML path), what was received, what is accepted and how
    to fix it. It is shown as it stands, without a traceback; any other exception also shows where it arose. Messages
    end in logs and notifications, so what looks like a secret is blanked.
    """

    def __init__(self, message: object = "", *others: object) -> None:
        """Takes the message."""
        super().__init__(redact(str(message)), *others)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a hint for a misspelt name, or an empty string where nothing known is close.

    Example:
        >>> did_you_mean("Trainr", ["Transform", "Trainer"])
        ' Did you mean "Trainer"?'

    Args:
        name: What was received; upper and lower case are taken as equal.
        known: What is accepted.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' Did you mean "{by_folded[close[0]]}"?' if close else ""


def listed(names: Collection[str], *, most: int = 20) -> str:
    """Returns names in one line, of long lists the first and how many more there are.

    Example:
        >>> listed(["a", "b", "c", "d"], most=2)
        'a, b and 2 more'

    Args:
        names: What is listed, in this order.
        most: How many names are shown.
    """
    return ", ".join(islice(names, most)) + (f" and {len(names) - most:,} more" if len(names) > most else "")


@contextmanager
def blame(path: str) -> Iterator[None]:
    """Turns any error of the code inside into a `UserError` that begins with the YAML path it arose at."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:
        raise UserError(f"{path}: {type(error).__name__}: {error}") from error
