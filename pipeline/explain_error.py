"""Maps the error that ended a command to its message and exit code."""

import errno
import os
import pwd
import sqlite3

from fullpass.base.errors import UsageError, UserError
from fullpass.pipeline.exit_codes import ExitCode

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
_SQLITE = {
    "unable to open database file": "cannot be opened by {user}, or no more files may be opened (`ulimit -n`)",
    "attempt to write a readonly database": "cannot be written by {user}",
    "database or disk is full": "the disk is full",
    "disk I/O error": "the disk reports an error, or the file would exceed the largest size (`ulimit -f`)",
}
_OF_METADATA = "Error when executing query: "
"""Stands before SQLite's message in the errors of ML Metadata, which raises RuntimeError for them."""
_WHERE = (
    "Fullpass writes into root and push.to of the YAML (`fullpass run --root` names another root), and temporary files "
    "into the folder that TMPDIR names. Choose folders that can be written."
)


def explained(error: Exception) -> str:
    """Returns the message for the user about an error that ended a command."""
    from fullpass.pipeline.authoring.loading.problems import ConfigError

    if isinstance(error, ConfigError):
        return f"{error}\n{error.count}"
    if isinstance(error, UserError):
        return str(error)
    return _of_this_machine(error) or (
        f"{type(error).__name__}: {error}\nThis is a defect of Fullpass. --debug shows the traceback."
    )


def exit_code(error: Exception) -> ExitCode:
    """Returns the exit code of a command that an error ended."""
    from fullpass.components.ingest.spans.spans import SpanNotFoundError

    if isinstance(error, SpanNotFoundError):
        return ExitCode.NO_SPAN
    return ExitCode.WRONG_USAGE if isinstance(error, UsageError) else ExitCode.FAILED


def _of_this_machine(error: Exception) -> str | None:
    """Returns the problem with a folder, a disk or a user of this machine; None for any other error."""
    if isinstance(error, BrokenPipeError):
        return "the program that reads the output ended before all was printed."
    if isinstance(error, OSError) and error.errno in _REFUSED:
        what = _REFUSED[error.errno].format(user=_user())
        return f"{error.filename or 'a file or the output'}: {what}.\n{_WHERE}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, FileNotFoundError) and error.strerror:
        return f"{error.strerror}.\n{_WHERE}"  # from tempfile, whose error lists the folders that it tried
    if isinstance(error, sqlite3.OperationalError) or _OF_METADATA in str(error):
        said = str(error).partition(_OF_METADATA)[2] or str(error)
        for text, meaning in _SQLITE.items():
            if said.startswith(text):
                return f"a SQLite file of the root: {meaning.format(user=_user())}.\n{_WHERE}"
    return None


def _user() -> str:
    """Returns the user of this process, by name if the machine has one for the uid."""
    try:
        return f"the user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        return f"the user {os.geteuid()}"
