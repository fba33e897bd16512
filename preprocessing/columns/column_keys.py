"""Names of the inputs of an export that takes raw columns."""

import keyword
import re
from collections.abc import Sequence


def column_keys(columns: Sequence[str]) -> dict[str, str]:
    """Returns, per raw column, the name of its input in `serving_raw`.

    TensorFlow accepts a letter followed by letters, digits and underscores, and no two names that differ in case only.
    A valid name is its own key. In other names each invalid character becomes an underscore. A name with an invalid
    beginning gets the prefix `column_`, and a key that is already taken gets a number as suffix.

    Example: ["fare", "trip miles", "1st", "Fare"] become fare, trip_miles, column_1st, Fare_2.
    """
    fitting = [name for name in columns if _plain(name) == name]
    keys: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys([*fitting, *columns]):
        keys[name] = _free(_plain(name), taken)
        taken.add(keys[name].lower())
    return {name: keys[name] for name in columns}


def _plain(name: str) -> str:
    key = re.sub(r"[^A-Za-z0-9_]", "_", name)
    bad = not key[0].isalpha() or keyword.iskeyword(key) or key == "self"
    return f"column_{key}" if bad else key


def _free(key: str, taken: set[str]) -> str:
    number, free = 2, key
    while free.lower() in taken:
        free = f"{key}_{number}"
        number += 1
    return free
