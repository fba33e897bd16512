"""Prints the output of commands: every line, table and tree for people passes here and is never read as markup.

Names, values, paths and errors come from data and file systems. In them, `[/red]` is text, an escape sequence must not
reach the terminal, and an undecodable byte must not end a run.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fullpass.base.direction_marks import DIRECTION_MARKS

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH_OF_FILES = 160
"""Number of characters of a line of a table that goes to a file or a pipe, which have no width."""
# Control characters except tab and newline, marks of the writing direction, and lone surrogates, which Python uses for
# bytes that are no UTF-8.
_HARMFUL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{DIRECTION_MARKS}\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Returns text with its control characters escaped; tabs and newlines stay.

    Example:
        >>> plain("red: \x1b[31m")
        'red: \\x1b[31m'
    """
    return _HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shortened(text: str, most: int) -> str:
    """Returns text of at most `most` characters; a longer one is cut and ends in `...`."""
    return text if len(text) <= most else f"{text[:most]}..."


def short_value(value: object) -> str:
    """Returns a value as text, a float with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_text(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Prints text for people."""
    typer.echo(plain(str(text)), err=err, nl=nl)


def print_data(text: str, *, nl: bool = True) -> None:
    """Prints text for programs (JSON, YAML) to standard output, unchanged."""
    typer.echo(text, nl=nl)


class PlainConsole(Console):
    """Prints every string literally, alone or in a cell, heading or title: `[/red]` and `:bug:` are text.

    Control characters are escaped, both in strings and in `Text`. Styles that Fullpass sets are kept.
    """

    def on_broken_pipe(self) -> None:
        """Stops printing if the reader has closed the pipe; rich would end the process, and with it the run."""
        self.quiet = True
        _discard_output()

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns a string as `Text`, never read as markup or emoji."""
        return super().render_str(plain(text), **(options | {"markup": False, "emoji": False}))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the segments of a renderable with their control characters escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def console(file: TextIO | None = None, **options: Any) -> Console:
    """Returns a console that reads no markup, for tables and trees; every console of the project is created here.

    Args:
        file: The output; standard output by default. Lines in a file or pipe may be wider than rich's default width,
            and have no control characters, whatever FORCE_COLOR says: Jupyter and CI systems set it, and show them.
    """
    if not (file or sys.stdout).isatty():
        options = {"width": _WIDTH_OF_FILES, "force_terminal": False} | options
    return PlainConsole(file=file, **options)


def simple_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[RenderableType]] = (),
    *,
    title: str | None = None,
    right: Container[str] = (),
    whole: Container[str] = (),
) -> "Table":
    """Returns a table. right: headings of columns of numbers; whole: of columns whose cells are never wrapped."""
    from rich import box  # here, for commands that print no table start sooner
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for heading in headings:
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=heading in whole,
            overflow="ellipsis" if heading in whole else "fold",
        )
    for row in rows:
        table.add_row(*row)
    return table


def aligned(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[str]:
    """Returns the rows of a table as lines. right: all columns but the first are aligned to the right."""
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    side = str.rjust if right else str.ljust
    return ["  ".join([row[0].ljust(first), *map(side, row[1:], widths)]) for row in rows]


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


def discard_unwritten() -> None:
    """Discards output that a full disk did not take: Python would try again at its end, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


@contextlib.contextmanager
def report_errors(what: str, note: Callable[[Exception], None] | None = None) -> Iterator[None]:
    """Suppresses an error of the block and prints it, so a failure to report does not change a run's outcome.

    Args:
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
