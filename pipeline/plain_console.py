"""A rich console for text from outside, which must not be read as markup."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fullpass.pipeline.plain_text import plain


class PlainConsole(Console):
    """Prints every string literally, alone or in a cell, heading or title: `[/red]` and `:bug:` are text.

    Control characters are escaped, both in strings and in `Text`. Styles that Fullpass sets are kept.
    """

    def on_broken_pipe(self) -> None:
        """Stops printing if the reader has closed the pipe; rich would end the process, and with it the run."""
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns a string as `Text`, never read as markup or emoji."""
        return super().render_str(plain(text), **(options | {"markup": False, "emoji": False}))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the segments of a renderable with their control characters escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
