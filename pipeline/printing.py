"""The console that commands print tables and trees to."""

import sys

from rich.console import Console

_WIDTH_OF_FILES = 160


def console() -> Console:
    """Returns standard output as a console; into a file or pipe, lines may be wider than rich takes them to be."""
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_FILES)
