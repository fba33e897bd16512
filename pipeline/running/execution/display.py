"""Shows the progress of a local run: a live table on a terminal; in a notebook one display that is updated; elsewhere a
line per start and end of a node, and every half minute while it runs.

No display starts a thread, since the same process forks the nodes.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from markupsafe import Markup
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fullpass.base.progress import Losses, Progress
from fullpass.components.pages import notebook_html as html
from fullpass.pipeline import printing
from fullpass.pipeline.record import events
from fullpass.pipeline.record.events import Listener, NodeResult, RunResult, Status

_MIN_RATE_SECONDS = 1.0
"""Seconds of counting before the time left is estimated: the first reports come in bursts."""
_SECONDS_PER_LINE = 30.0
"""Seconds between lines about a running node where the output is no terminal, such as a log."""
_RUNNING, _WAITING = "running", "waiting"
_STYLES = {
    _RUNNING: "bold",
    _WAITING: "dim",
    Status.OK: "green",
    Status.CACHED: "cyan",
    Status.SKIPPED: "dim",
    Status.FAILED: "bold red",
    Status.INTERRUPTED: "yellow",
    Status.NOT_RUN: "dim",
}


@contextmanager
def display(console: Console | None = None, *, events: bool = False) -> Iterator[Listener]:
    """Yields a listener for `runner.run` that shows the run on `console`, by default standard output.

    With `events`, the run is shown by another process, which reads the events from the console's file.

    The listener raises nothing. If its terminal or pipe is gone, it stops showing events, and the run goes on.
    """
    console = console or printing.console()
    if events or not console.is_terminal or console.is_dumb_terminal:
        yield _while_it_works(_event_lines(console) if events else _LineLog(console))
        return
    live = _LiveTable(console)
    try:
        yield _while_it_works(live)
    finally:
        with printing.report_errors("The terminal could not be restored"):
            live.close()


def _while_it_works(listener: Listener) -> Listener:
    """Returns a listener that forwards events until the first one that cannot be shown."""
    failed: list[Exception] = []

    def hand_on(event: events.Event) -> None:
        if not failed:
            with printing.report_errors("The run goes on, but is no longer shown", failed.append):
                listener(event)

    return hand_on


def _event_lines(console: "Console") -> Listener:
    def write(event: events.Event) -> None:
        console.file.write(events.to_line(event))
        console.file.flush()

    return write


class _LineLog:
    """Prints a line when a node starts, every half minute, and when it ends, without control characters."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rates = _Rates()
        self._next_line: dict[str, float] = {}
        self._announced: set[str] = set()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self._print(_heading(event))
            case events.NodeStarted(id=node_id):
                self._print(f"{node_id}: started")
            case events.NodeRunning(id=node_id, seconds=seconds, progress=progress):
                self._running(node_id, seconds, self._rates.describe(node_id, progress))
                if progress is not None and not progress.unit:
                    self._announce(f"{node_id}: {progress.note}")
            case events.NodeEnded(result=result):
                self._print(f"{result.id}: {_status_text(result)}")
                if result.error:
                    self._print(_failure(result))
            case events.RunEnded(result=result):
                for line in _unfinished_nodes(result):
                    self._print(line)

    def _running(self, node_id: str, seconds: float, progress: str) -> None:
        due = self._next_line.setdefault(node_id, _SECONDS_PER_LINE)
        if seconds >= due:
            self._next_line[node_id] = seconds + _SECONDS_PER_LINE
            self._print(
                f"{node_id}: {', '.join(one for one in (f'running for {duration_text(seconds)}', progress) if one)}"
            )

    def _announce(self, text: str) -> None:
        """Prints at once, and once, what a node says before it begins to count."""
        if text not in self._announced:
            self._announced.add(text)
            self._print(text)

    def _print(self, text: str) -> None:
        _print(self._console, text)
        self._console.file.flush()


class NodeRows:
    """The nodes of a run as rows of a table, by the events so far."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, str, str]] = {}
        self._rates = _Rates()

    @property
    def rows(self) -> Mapping[str, tuple[str, str, str]]:
        """Node id -> its status, its time, and its progress or the first line of its error, as text."""
        return self._rows

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.RunStarted(node_ids=node_ids):
                self._rows = dict.fromkeys(node_ids, (_WAITING, "", ""))
            case events.NodeStarted(id=node_id):
                self._rows[node_id] = (_RUNNING, duration_text(0), "")
            case events.NodeRunning(id=node_id, seconds=seconds, progress=progress):
                self._rows[node_id] = (_RUNNING, duration_text(seconds), self._rates.describe(node_id, progress))
            case events.NodeEnded(result=result):
                first_line = (result.error or "").partition("\n")[0]
                self._rows[result.id] = (result.status.value, duration_text(result.seconds), first_line)
            case events.RunEnded(result=result):
                not_run = [node.id for node in result.nodes if node.status == Status.NOT_RUN and node.id in self._rows]
                self._rows |= dict.fromkeys(not_run, (Status.NOT_RUN.value, "", ""))


class _LiveTable:
    """Redraws a table with one line per node at every event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._nodes = NodeRows()

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self._start(event)
        self._nodes(event)
        self._draw()
        if isinstance(event, events.RunEnded):
            self.close()
            for line in ending(event.result):
                _print(self._console, line)

    def close(self) -> None:
        """Stops redrawing; the last table stays on the screen."""
        if self._live:
            self._live.stop()
            self._live = None

    def _start(self, event: events.RunStarted) -> None:
        _print(self._console, _heading(event))
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def _draw(self) -> None:
        if self._live is None:
            return
        table = Table.grid(padding=(0, 2))
        for node_id, (status, elapsed, detail) in self._nodes.rows.items():
            shown = Text(detail, "red" if status == Status.FAILED else "", no_wrap=True, overflow="ellipsis")
            table.add_row(node_id, Text(status, _STYLES.get(status, "")), Text(elapsed, justify="right"), shown)
        self._live.update(table, refresh=True)


class _Rates:
    """The progress of the running nodes, each with its rate since the first report of the same count."""

    def __init__(self) -> None:
        self._first: dict[str, Progress] = {}

    def describe(self, node_id: str, progress: Progress | None) -> str:
        """Returns the progress of a node in words, "" before its first report."""
        if progress is None:
            return ""
        first = self._first.setdefault(node_id, progress)
        # A node may start a new count, such as for each epoch.
        if (progress.unit, progress.total) != (first.unit, first.total) or progress.done < first.done:
            first = self._first[node_id] = progress
        return describe(progress, _seconds_left(first, progress))


def _seconds_left(first: Progress, progress: Progress) -> float | None:
    """Returns the estimated seconds to the end of a count or of a time limit, or None while there is no estimate."""
    seconds, counted = progress.reported_at - first.reported_at, progress.done - first.done
    if progress.total is None or counted <= 0 or seconds < _MIN_RATE_SECONDS:
        return None
    left = max(0, progress.total - progress.done) * seconds / counted
    return left if progress.ends_at is None else min(left, max(0.0, progress.ends_at - progress.reported_at))


def duration_text(seconds: float) -> str:
    """Returns a duration for people.

    Example:
        >>> duration_text(3.21), duration_text(42), duration_text(75), duration_text(3700)
        ('3.2 s', '42 s', '1:15', '1:01:40')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def describe(progress: Progress, seconds_left: float | None) -> str:
    """Returns a progress report in words: `3,000 of 12,000 rows, 1:12 left, file 1 of 4`."""
    count = f"{progress.done:,} {progress.unit}" if progress.unit else ""
    if progress.total is not None:
        count = f"{progress.done:,} of {progress.total:,} {progress.unit}"
    left = "" if seconds_left is None else f"{duration_text(seconds_left)} left"
    return ", ".join(part for part in (count, left, progress.note) if part)


def _heading(event: events.RunStarted) -> str:
    base = f", with outputs of run {event.base_run_id} before {event.node_ids[0]}" if event.base_run_id else ""
    return f"{event.pipeline_name}: run {event.run_id}{base}"


def _status_text(result: NodeResult) -> str:
    took = f" after {duration_text(result.seconds)}" if result.status in (Status.FAILED, Status.INTERRUPTED) else ""
    took = f", {duration_text(result.seconds)}" if result.status == Status.OK else took
    return f"{result.status}{took}"


def ending(result: RunResult) -> Iterator[str]:
    """Yields what is said below the nodes when a run has ended: errors with their logs, and nodes that did not run."""
    yield from (_failure(node) for node in result.nodes if node.error)
    yield from _unfinished_nodes(result)


def _failure(result: NodeResult) -> str:
    return f"\n{result.id} failed: {result.error}\nIts log: {result.log}\n"


def _unfinished_nodes(result: RunResult) -> Iterator[str]:
    for words, status in (("Interrupted", Status.INTERRUPTED), ("Not run", Status.NOT_RUN)):
        if ids := [node.id for node in result.nodes if node.status == status]:
            yield f"{words}: {', '.join(ids)}"


def _print(console: Console, text: str) -> None:
    """Prints text without highlighting or line breaks, so that paths can be copied."""
    console.print(Text(text), soft_wrap=True, highlight=False)


_SECONDS_PER_UPDATE = 0.5
"""Seconds between updates in a notebook, each of which is sent to the browser whole."""
_NODE_STYLES: Mapping[str, str] = {Status.OK: html.GOOD, Status.FAILED: html.BAD}


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
        self._losses: Losses = {}
        self._handle: Any = display(self, display_id=True)

    def line(self, line: str) -> None:
        """Takes the next line of the run's output."""
        event = events.from_line(line)
        if event is None:
            self._lines.append(f"{line.rstrip()}\n")
        else:
            self._nodes(event)
        if isinstance(event, events.NodeRunning) and event.losses:
            self._losses = event.losses
        if isinstance(event, events.RunEnded):
            self._over = True
            self._lines += [f"{text}\n" for text in ending(event.result)]
        often = isinstance(event, events.NodeRunning) and time.monotonic() < self._updated + _SECONDS_PER_UPDATE
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
            (node, Markup('<span style="{}">{}</span>').format(_NODE_STYLES.get(status, ""), status), *rest)
            for node, (status, *rest) in self._nodes.rows.items()
        ]
        nodes, text = html.table((), rows), "".join(self._lines)
        losses = html.loss_chart(self._losses)
        if self._ended is None:
            return html.block(f"{self._name}: {self._state}", nodes, losses, Markup("<pre>{}</pre>").format(text))
        folded = Markup("<details><summary>nodes</summary>{}</details>").format(nodes)
        return f"{self._ended._repr_html_()}{losses}{folded}{html.details('all that fullpass run prints', text)}"

    def __repr__(self) -> str:
        rows = [f"{node}: {', '.join(filter(None, cells))}\n" for node, cells in self._nodes.rows.items()]
        return "".join([f"{self._name}\n", *rows, *self._lines]).rstrip()
