"""A result that is a page: it is written to a file, and a notebook shows it in a frame of its own."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fullpass.base.files import write_atomically
from fullpass.components.pages import notebook_html as html


class ShownPage(ABC):
    """The base of results that have a page, a title, and JSON data."""

    @property
    @abstractmethod
    def page(self) -> str:
        """The page: one HTML file without external resources, light and dark."""

    @property
    @abstractmethod
    def title(self) -> str:
        """One line about the result."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Returns the result as JSON data."""

    def write(self, file: Path | str) -> Path:
        """Writes the page and returns its path."""
        write_atomically(Path(file), self.page.encode())
        return Path(file)

    def _repr_html_(self) -> str:
        frame = Markup('<iframe srcdoc="{}" style="width:100%;height:60em;border:0"></iframe>').format(self.page)
        return html.block(self.title, frame)
