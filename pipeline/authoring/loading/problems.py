"""Problems of a pipeline file as data: the path, the received value, and the accepted values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UsageError, escaped

Keys = tuple[str | int, ...]
"""A path in a YAML tree: keys of mappings and indices of lists, from the root."""

_PLAIN_KEY = re.compile(r"[^\s.\[\]\"']+")


@dataclass(frozen=True)
class Problem:
    """One finding. A warning does not stop the run; an error does.

    Example:
        >>> (problem,) = fullpass.check("wrong.yaml")
        >>> problem.line, problem.path, problem.severity
        (8, 'features.fare', 'error')
    """

    path: str
    """The path as `format_path` writes it; empty for the file as a whole."""
    line: int | None
    """Counted from 1; None if the file could not be read."""
    message: str
    severity: Literal["error", "warning"] = "error"

    def located(self, file: Path | str) -> str:
        """Returns the finding as one line for people and editors: `pipeline.yaml:12: label.task: ...`."""
        where = str(file) if self.line is None else f"{file}:{self.line}"
        mark = "warning: " if self.severity == "warning" else ""
        return f"{where}: {mark}{self.path}: {self.message}" if self.path else f"{where}: {mark}{self.message}"


class ConfigError(UsageError):
    """A pipeline file that cannot be used; `problems` holds every finding, in file order.

    Example:
        >>> try:
        ...     fullpass.load("wrong.yaml")
        ... except fullpass.ConfigError as error:
        ...     error.count
        '1 error.'
    """

    def __init__(self, file: Path | str, problems: Iterable[Problem]) -> None:
        """Takes the path of the file as the user gave it, and its problems."""
        self.file = str(file)
        self.problems = in_file_order(problems)
        super().__init__("\n".join(problem.located(self.file) for problem in self.problems))

    @property
    def count(self) -> str:
        """The number of findings in words: `2 errors, 1 warning.`"""
        warnings = sum(problem.severity == "warning" for problem in self.problems)
        counts = {"error": len(self.problems) - warnings, "warning": warnings}
        return ", ".join(f"{n} {word}{'s' if n > 1 else ''}" for word, n in counts.items() if n) + "."


def in_file_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Returns the distinct problems, sorted by line and then by path."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.line or 0, p.path)))


def format_path(keys: Keys) -> str:
    """Returns a path as text; keys that hold dots, blanks or brackets are quoted.

    Example:
        >>> format_path(("features", "fare", "transforms", 1, "clip"))
        'features.fare.transforms[1].clip'
        >>> format_path(("features", "trip miles"))
        'features["trip miles"]'
    """
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif _PLAIN_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f'["{escaped(key)}"]'
    return text


def keys_match(pattern: str, keys: Keys) -> bool:
    """Returns whether `keys` fits a pattern in which `*` matches any name and `[*]` any item of a list.

    Example:
        >>> keys_match("features.*.transforms[*]", ("features", "fare", "transforms", 1))
        True
    """
    parts = pattern.replace("[*]", ".[*]").split(".")
    return len(parts) == len(keys) and all(
        part == key or (part == "*" and isinstance(key, str)) or (part == "[*]" and isinstance(key, int))
        for part, key in zip(parts, keys, strict=True)
    )
