"""Shows a run in a notebook: one display that is updated while the run goes on, and keeps its end."""

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from markupsafe import Markup

from fullpass.base import notebook_html as html
from fullpass.pipeline.running.execution.display import NodeRows, ending
from fullpass.pipeline.running.execution.events import NodeRunning, RunEnded, Status, from_line

_SECONDS_PER_UPDATE = 0.5
_STYLES: Mapping[str, str] = {Status.OK: html.GOOD, Status.FAILED: html.BAD}


class Shown(Protocol):
    """An object with a form for notebooks."""

    def _repr_html_(self) -> str: ...


def in_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook; IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    return getattr(ipython and ipython.get_ipython(), "kernel", None) is not None


class NotebookDisplay:
    """The nodes of a run, then its outcome, in one output of a cell.

    Lines for people that the run prints stand below the nodes until the run ends; then they are folded.
    """

    def __init__(self, name: str) -> None:
        """Displays the run of the pipeline `name`."""
        from IPython.display import display

        self._name = name
        self._nodes = NodeRows()
        self._lines: list[str] = []
        self._ended: Shown | None = None
        self._over, self._state = False, "running"
        self._updated = 0.0
        self._handle: Any = display(self, display_id=True)

    def line(self, line: str) -> None:
        """Takes the next line of the run's output."""
        event = from_line(line)
        if event is None:
            self._lines.append(f"{line.rstrip()}\n")
        else:
            self._nodes(event)
        if isinstance(event, RunEnded):
            self._over = True
            self._lines += [f"{text}\n" for text in ending(event.result)]
        often = isinstance(event, NodeRunning) and time.monotonic() < self._updated + _SECONDS_PER_UPDATE
        if not often and not (self._over and event is None):  # the lines of the summary come with the outcome
            self._update()

    def end(self, outcome: Shown | None) -> None:
        """Shows the outcome of the run; None if it could not start, or was interrupted."""
        self._state, self._ended = "without an outcome", outcome
        self._update()

    def _update(self) -> None:
        self._updated = time.monotonic()
        self._handle.update(self)

    def _repr_html_(self) -> str:
        rows = [
            (node, Markup('<span style="{}">{}</span>').format(_STYLES.get(status, ""), status), *rest)
            for node, (status, *rest) in self._nodes.rows.items()
        ]
        nodes, text = html.table((), rows), "".join(self._lines)
        if self._ended is None:
            return html.block(f"{self._name}: {self._state}", nodes, Markup("<pre>{}</pre>").format(text))
        folded = Markup("<details><summary>nodes</summary>{}</details>").format(nodes)
        return f"{self._ended._repr_html_()}{folded}{html.details('all that fullpass run prints', text)}"

    def __repr__(self) -> str:
        rows = [f"{node}: {', '.join(filter(None, cells))}\n" for node, cells in self._nodes.rows.items()]
        return "".join([f"{self._name}\n", *rows, *self._lines]).rstrip()
