"""A console of rich for text that is not ours."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fullpass.pipeline.plain_text import plain


class PlainConsole(Console):
    """Prints every string as it is, whether alone, in a cell, a heading or a title: `[/red]` is text, `:bug:` too.

    Control characters are written out, in strings as in `Text`; colours of our own stay.
    """

    def on_broken_pipe(self) -> None:
        """Prints nothing more where the reader has left; rich would end the process, and with it a run."""
        self.quiet = True
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns a string as `Text`; it is never read as markup or emoji."""
        return super().render_str(plain(text), **(options | {"markup": False, "emoji": False}))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yields the segments of a renderable, their control characters written out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
