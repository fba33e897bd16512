"""Prints the output of commands: every line, table and tree for people passes here and is never read as markup.

Names, values, paths and errors come from data and file systems. In them, `[/red]` is text, an escape sequence must not
reach the terminal, and an undecodable byte must not end a run.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import typer

from fullpass.pipeline.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_FILES = 160


def print_text(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Prints text for people.

    Args:
        text: Any text; control characters are escaped, see `plain`.
        err: Prints to standard error.
        nl: Ends the line.
    """
    typer.echo(plain(str(text)), err=err, nl=nl)


def print_data(text: str, *, nl: bool = True) -> None:
    """Prints text for programs (JSON, YAML) to standard output, unchanged."""
    typer.echo(text, nl=nl)


def console(file: TextIO | None = None, **options: Any) -> "Console":
    """Returns a console that reads no markup, for tables and trees; every console of the project is created here.

    Args:
        file: The output; standard output by default. Lines in a file or pipe may be wider than rich's default width.
        **options: Options of rich's console.
    """
    from fullpass.pipeline.plain_console import PlainConsole

    if not (file or sys.stdout).isatty():
        options = {"width": _WIDTH_OF_FILES} | options
    return PlainConsole(file=file, **options)


def open_streams() -> None:
    """Opens closed standard streams on the null device, and makes output escape characters that its encoding lacks.

    With a closed stream (`>&-`) the next file that is opened would take its place, and output would be written into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is that of the closed stream
            os.set_inheritable(null, True)
            setattr(sys, name, open(null, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextlib.contextmanager
def report_errors(what: str, note: Callable[[Exception], None] | None = None) -> Iterator[None]:
    """Suppresses an error of the block and prints it, so a failure to report does not change a run's outcome.

    Args:
        what: The action that failed, for the line on standard error.
        note: Called with the error, for example to log its traceback.
    """
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):
            if note is not None:
                note(error)
        with contextlib.suppress(Exception):
            print_text(f"{what}: {type(error).__name__}: {error}", err=True)
