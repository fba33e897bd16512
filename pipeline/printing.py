"""How commands print: every line, table and tree for people passes here, and none of it is read as markup.

Names, values, paths and errors come from data and from file systems. There, `[/red]` is text, an escape sequence must
not reach the terminal, and a byte that no encoding knows must not end a run.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import typer

from fullpass.pipeline.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_FILES = 160


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Prints text for people.

    Args:
        text: May hold anything; see `plain`.
        err: Prints to standard error.
        nl: Ends the line.
    """
    typer.echo(plain(str(text)), err=err, nl=nl)


def emit(text: str, *, nl: bool = True) -> None:
    """Prints text for programs (JSON, YAML) to standard output, as it is."""
    typer.echo(text, nl=nl)


def console(file: TextIO | None = None, **options: Any) -> "Console":
    """Returns a console that reads no markup, for tables and trees; every console of the project is made here.

    Args:
        file: Where it prints; standard output by default. Into a file or pipe, lines may be wider than rich takes them
            to be.
        **options: Of rich's console.
    """
    from fullpass.pipeline.plain_console import PlainConsole

    if not (file or sys.stdout).isatty():
        options = {"width": _WIDTH_OF_FILES} | options
    return PlainConsole(file=file, **options)


def accept_any_text() -> None:
    """Lets standard output and error write out what their encoding lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextlib.contextmanager
def outlived(what: str, note: Callable[[Exception], None] | None = None) -> Iterator[None]:
    """Lets an error end the block, but not what the block is told about: a finished run keeps its outcome.

    Args:
        what: What could not be done, for the line on standard error.
        note: Is called with the error, such as to log its traceback.
    """
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):
            if note is not None:
                note(error)
        with contextlib.suppress(Exception):
            say(f"{what}: {type(error).__name__}: {error}", err=True)
