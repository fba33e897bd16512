"""Redacts secrets in text: the second line of defense, after the check of the YAML.

All output of a run, a compilation or a push is redacted here: metadata, logs, files beside artifacts, exports,
packages, notifications, and error messages.
"""

import io
import re
import sys
from collections.abc import Mapping
from typing import Any

from fullpass.base.secret_formats import BLANK, PATTERNS, SETTING_IN_YAML, is_secret_setting

_USER = re.compile(r"(?<![A-Za-z0-9+.\-])(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<user>[^\s\"'<>\\/?#@:\[]+)@")
_PLAIN_USER = re.compile(r"[A-Za-z_][\w.\-]{0,31}")
_TOKENS_AS_USERS = ("http", "https", "git+https", "git+http", "ws", "wss")
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")


def redact(text: str) -> str:
    """Returns a text with `***` for each secret in it; the same text if it contains none.

    In URLs this removes logins, user names that are not plain names, and secrets in the query.

    Example:
        >>> redact("cannot reach postgresql://me:hunter2@db/trips?sslmode=require")
        'cannot reach postgresql://***@db/trips?sslmode=require'
        >>> redact("s3://bucket/trips/*.csv")
        's3://bucket/trips/*.csv'
    """
    for pattern in PATTERNS:
        text = pattern.sub(_blanked, text)
    return _USER.sub(_without_user, text)


def redact_yaml(text: str) -> str:
    """Returns the redacted text of a YAML file, including its comments.

    Example:
        >>> redact_yaml("label: tip  # DB_PASS: hunter2")
        'label: tip  # DB_PASS: ***'
    """
    return SETTING_IN_YAML.sub(_blanked, redact(text))


def redact_tree(value: Any) -> Any:
    """Returns JSON-like data (mappings, lists, tuples and texts) with every text redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redact_tree(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(redact_tree, value))
    return value


def redact_setting(name: str, value: str) -> str:
    """Returns the redacted value of an environment variable."""
    return BLANK if is_secret_setting(name, value) else redact(value)


class RedactedText(io.TextIOWrapper):
    """A text stream that redacts the output of Python; output of C++ to the same descriptor bypasses it."""

    @classmethod
    def of_descriptor(cls, descriptor: int) -> "RedactedText":
        """Returns a line-buffered stream to an open file descriptor, which it does not close."""
        raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115
        return cls(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)

    def write(self, text: str, /) -> int:
        """See base class."""
        super().write(redact(text))
        return len(text)


def redact_streams() -> None:
    """Redacts all later output of this process; for programs whose output is stored by others."""
    sys.stdout, sys.stderr = RedactedText.of_descriptor(1), RedactedText.of_descriptor(2)


def _blanked(found: re.Match[str]) -> str:
    start, end = found.span("secret")
    return found[0][: start - found.start()] + BLANK + found[0][end - found.start() :]


def _without_user(found: re.Match[str]) -> str:
    scheme, user = found["scheme"].lower(), found["user"]
    if scheme in _CONTAINERS or user == BLANK or (scheme not in _TOKENS_AS_USERS and _PLAIN_USER.fullmatch(user)):
        return found[0]
    return f"{found['scheme']}://{BLANK}@"
