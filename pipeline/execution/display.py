"""Shows a local run as it goes: a live table on a terminal, one line per start and end elsewhere.

Neither starts a thread, since the process that shows is the one that forks the nodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipeline.execution.events import (
    Event,
    Listener,
    NodeEnded,
    NodeResult,
    NodeRunning,
    NodeStarted,
    RunEnded,
    RunResult,
    RunStarted,
    Status,
)
from preprocessing.progress import Progress

_MIN_PACE_SECONDS = 1.0
_STYLES = {
    Status.OK: "green",
    Status.CACHED: "cyan",
    Status.SKIPPED: "dim",
    Status.FAILED: "bold red",
    Status.INTERRUPTED: "yellow",
}


@contextmanager
def display(console: Console | None = None) -> Iterator[Listener]:
    """Gives a listener for `runner.run` that shows the run on `console`, by default standard output.

    Example:
        >>> with display() as listener:
        ...     result = runner.run(pipeline, log_dir=log_dir, listener=listener)
    """
    console = console or Console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(console)
        return
    live = _LiveTable(console)
    try:
        yield live
    finally:
        live.close()


class _Lines:
    """One line when a node starts and one when it ends, without control characters: for files and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._print(_heading(event))
            case NodeStarted(id=node_id):
                self._print(f"{node_id}: started")
            case NodeEnded(result=result):
                self._print(f"{result.id}: {_ending(result)}")
                if result.error:
                    self._print(_failure(result))
            case RunEnded(result=result):
                for line in _remaining(result):
                    self._print(line)

    def _print(self, text: str) -> None:
        _print(self._console, text)
        self._console.file.flush()


class _LiveTable:
    """A table with a line per node, redrawn in place with every event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._rows: dict[str, tuple[Text, str, Text]] = {}
        self._paces: dict[str, _Pace] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(node_ids=node_ids):
                self._open(event)
                self._rows = {node_id: (Text("waiting", "dim"), "", Text()) for node_id in node_ids}
            case NodeStarted(id=node_id):
                self._rows[node_id] = (Text("running", "bold"), duration(0), Text())
            case NodeRunning(id=node_id, seconds=seconds, progress=progress):
                self._rows[node_id] = (Text("running", "bold"), duration(seconds), self._describe(node_id, progress))
            case NodeEnded(result=result):
                self._rows[result.id] = _ended_row(result)
            case RunEnded(result=result):
                self._end(result)
        self._draw()

    def close(self) -> None:
        """Leaves the last table on the screen and gives the terminal back."""
        if self._live:
            self._live.stop()
            self._live = None

    def _open(self, event: RunStarted) -> None:
        _print(self._console, _heading(event))
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def _draw(self) -> None:
        if self._live is None:
            return
        table = Table.grid(padding=(0, 2))
        for node_id, (status, elapsed, detail) in self._rows.items():
            table.add_row(node_id, status, Text(elapsed, justify="right"), detail)
        self._live.update(table, refresh=True)

    def _describe(self, node_id: str, progress: Progress | None) -> Text:
        if progress is None:
            return Text()
        pace = self._paces.get(node_id)
        if pace is None or not pace.fits(progress):
            pace = self._paces[node_id] = _Pace(progress)
        return Text(describe(progress, pace.seconds_left(progress)), no_wrap=True, overflow="ellipsis")

    def _end(self, result: RunResult) -> None:
        for node in result.nodes:
            if node.id in self._rows and node.status == Status.NOT_RUN:
                self._rows[node.id] = (Text("not run", "dim"), "", Text())
        self._draw()
        self.close()
        for node in result.nodes:
            if node.error:
                _print(self._console, _failure(node))
        for line in _remaining(result):
            _print(self._console, line)


@dataclass(frozen=True)
class _Pace:
    """How fast a node counts, measured since `first`, the first report of the same count."""

    first: Progress

    def fits(self, progress: Progress) -> bool:
        """Whether `progress` goes on with the same count: a node may start a new one, as with each epoch."""
        same_count = (progress.unit, progress.total) == (self.first.unit, self.first.total)
        return same_count and progress.done >= self.first.done

    def seconds_left(self, progress: Progress) -> float | None:
        """Returns the time to the end of the count, or None while it cannot be told."""
        seconds = progress.reported_at - self.first.reported_at
        counted = progress.done - self.first.done
        if progress.total is None or counted <= 0 or seconds < _MIN_PACE_SECONDS:
            return None
        return max(0, progress.total - progress.done) * seconds / counted


def duration(seconds: float) -> str:
    """Returns a time as people write it.

    Example:
        >>> duration(3.21), duration(42), duration(75), duration(3700)
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
    count = f"{progress.done:,} {progress.unit}"
    if progress.total is not None:
        count = f"{progress.done:,} of {progress.total:,} {progress.unit}"
    left = "" if seconds_left is None else f"{duration(seconds_left)} left"
    return ", ".join(part for part in (count, left, progress.note) if part)


def _heading(event: RunStarted) -> str:
    base = f", with outputs of run {event.base_run_id} before {event.node_ids[0]}" if event.base_run_id else ""
    return f"{event.pipeline_name}: run {event.run_id}{base}"


def _ending(result: NodeResult) -> str:
    took = f" after {duration(result.seconds)}" if result.status in (Status.FAILED, Status.INTERRUPTED) else ""
    took = f", {duration(result.seconds)}" if result.status == Status.OK else took
    return f"{result.status}{took}"


def _ended_row(result: NodeResult) -> tuple[Text, str, Text]:
    first_line = (result.error or "").partition("\n")[0]
    detail = Text(first_line, "red", no_wrap=True, overflow="ellipsis")
    return Text(result.status, _STYLES.get(result.status, "")), duration(result.seconds), detail


def _failure(result: NodeResult) -> str:
    """Returns the cause, and after it where the rest can be read."""
    return f"\n{result.id} failed: {result.error}\nIts log: {result.log}\n"


def _remaining(result: RunResult) -> Iterator[str]:
    for words, status in (("Interrupted", Status.INTERRUPTED), ("Not run", Status.NOT_RUN)):
        ids = [node.id for node in result.nodes if node.status == status]
        if ids:
            yield f"{words}: {', '.join(ids)}"


def _print(console: Console, text: str) -> None:
    """Prints text as it is: no markup, no colours of rich's own, no line broken where a path might be copied."""
    console.print(Text(text), soft_wrap=True, highlight=False)
