"""The exit codes of `fullpass`: their meanings, their outcomes, and the code and message of an error."""

import errno
import os
import pwd
import re
import sqlite3
import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import Literal

from fullpass.base.errors import UsageError, UserError
from fullpass.pipeline.authoring.loading.problems import ConfigError

Outcome = Literal["success", "failure", "not_blessed", "gate_stop", "late", "skipped", "missed"]
"""The outcome of a run, or of an occasion of the schedule."""
_REFUSED = {
    errno.EACCES: "permission denied to {user}",
    errno.EPERM: "permission denied to {user}",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of {user} is used up",
    errno.EFBIG: "the file would exceed the largest size that this process may write (`ulimit -f`)",
    errno.EMFILE: "this process may not open more files (`ulimit -n`)",
    errno.ENFILE: "this machine may not open more files",
    errno.ENOMEM: "the memory is used up",
    errno.EIO: "the disk reports an error",
}
_FULL = {os.strerror(number): number for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
_IN_TEXT = re.compile(rf"((?<!\S)(?P<before>/[^;\n]+); )?(?P<said>{'|'.join(_FULL)})(: '(?P<after>[^'\n]+)')?")
"""A full disk, and its file, in the text of an error of TensorFlow (before) or Python (after)."""
_SQLITE = {
    "unable to open database file": "cannot be opened by {user}, or no more files may be opened (`ulimit -n`)",
    "attempt to write a readonly database": "cannot be written by {user}",
    "database or disk is full": "the disk is full",
    "disk I/O error": "the disk reports an error, or the file would exceed the largest size (`ulimit -f`)",
}
_OF_METADATA = "Error when executing query: "
"""Stands before SQLite's message in the errors of ML Metadata, which raises RuntimeError for them."""
_DEFECT = "This is a defect of Fullpass. --debug shows the traceback."
_WHERE = (
    "Fullpass writes into root and push.to of the YAML (`fullpass run --root` names another root), and temporary files "
    "into the folder that TMPDIR names. Choose folders that can be written, or free space there."
)


class ExitCode(IntEnum):
    """An exit code; its docstring states when a command ends with it.

    Example:
        >>> f"{ExitCode.NO_SPAN} {ExitCode.NO_SPAN.short}"
        '4 no such span'
    """

    short: str

    DONE = 0, "done", "For `run`: the model is blessed, or `--to` ended the run before the evaluation."
    FAILED = (
        1,
        "a run failed",
        "A node or another command failed, the run was interrupted, or another run holds the root.",
    )
    WRONG_USAGE = 2, "the YAML or the command line is wrong", "Nothing was started; the message names every mistake."
    NOT_BLESSED = 3, "not blessed", "The run finished, but the model did not reach its thresholds and was not pushed."
    NO_SPAN = 4, "no such span", "The requested span is missing (`--span`, `on_late: fail`)."
    GATE_STOP = 5, "stopped by the data gate", "The data has changed. Nothing was trained; the served model stays."
    NOTHING_TO_TRAIN = (
        6,
        "nothing to train",
        (
            "For `schedule run --once`: the span is late (`on_late: skip`), was trained on already, or has not "
            "drifted. 0 with `--skipped-ok`."
        ),
    )
    TERMINATED = 143, "stopped container", "A deadline, an eviction or a user stopped a container on Kubeflow."

    def __new__(cls, value: int, short: str, meaning: str) -> "ExitCode":
        """Returns a member whose docstring is its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.short = short
        member.__doc__ = meaning
        return member


OUTCOME_CODES: Mapping[str, ExitCode] = {
    "success": ExitCode.DONE,
    "failure": ExitCode.FAILED,
    "not_blessed": ExitCode.NOT_BLESSED,
    "late": ExitCode.NO_SPAN,
    "gate_stop": ExitCode.GATE_STOP,
    "skipped": ExitCode.NOTHING_TO_TRAIN,
    "missed": ExitCode.NOTHING_TO_TRAIN,
}
WITH_VERDICT = (ExitCode.DONE, ExitCode.NOT_BLESSED, ExitCode.GATE_STOP)
"""Codes of runs that reached a verdict, of the evaluation or of the data gate."""


def outcome_of(code: int) -> Outcome:
    """Returns the outcome of a run that ended with an exit code.

    Example:
        >>> outcome_of(3), outcome_of(-9)
        ('not_blessed', 'failure')
    """
    known: tuple[Outcome, ...] = ("success", "not_blessed", "gate_stop", "late")
    return next((outcome for outcome in known if OUTCOME_CODES[outcome] == code), "failure")


def explained(error: Exception) -> str:
    """Returns the message for the user about an error that ended a command."""
    if isinstance(error, ConfigError):
        return f"{error}\n{error.count}"
    if isinstance(error, UserError):
        return str(error)
    return _of_this_machine(error) or f"{type(error).__name__}: {error}\n{_of_python(error) or _DEFECT}"


def _of_python(error: Exception) -> str | None:
    """Returns which setting of Python makes libraries fail; None if none does."""
    if isinstance(error, Warning):
        return "PYTHONWARNINGS makes an error of each warning, here of one that a library gives. Unset it."
    if sys.flags.optimize > 1:
        return "PYTHONOPTIMIZE=2 removes docstrings, which TensorFlow reads while it loads. Unset it, or set it to 1."
    return None


def exit_code(error: Exception) -> ExitCode:
    """Returns the exit code of a command that an error ended."""
    from fullpass.components.ingest.spans.spans import SpanNotFoundError

    if isinstance(error, SpanNotFoundError):
        return ExitCode.NO_SPAN
    return ExitCode.WRONG_USAGE if isinstance(error, UsageError) else ExitCode.FAILED


def of_full_disk(text: str) -> str | None:
    """Returns the message for the user about the full disk that an error's text names; None for another."""
    found = _IN_TEXT.search(text)
    return _refused(_FULL[found["said"]], found["before"] or found["after"]) if found else None


def _refused(number: int, file: str | None) -> str:
    return f"{file or 'a file or the output'}: {_REFUSED[number].format(user=_user())}.\n{_WHERE}"


def _of_this_machine(error: Exception) -> str | None:
    """Returns the problem with a folder, a disk or a user of this machine; None for any other error."""
    if isinstance(error, BrokenPipeError):
        return "the program that reads the output ended before all was printed."
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return _refused(error.errno, error.filename)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, FileNotFoundError) and error.strerror:
        return f"{error.strerror}.\n{_WHERE}"  # from tempfile, whose error lists the folders that it tried
    if isinstance(error, sqlite3.OperationalError) or _OF_METADATA in str(error):
        said = str(error).partition(_OF_METADATA)[2] or str(error)
        for text, meaning in _SQLITE.items():
            if said.startswith(text):
                return f"a SQLite file of the root: {meaning.format(user=_user())}.\n{_WHERE}"
    return of_full_disk(str(error))


def _user() -> str:
    """Returns the user of this process, by name if the machine has one for the uid."""
    try:
        return f"the user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        return f"the user {os.geteuid()}"
