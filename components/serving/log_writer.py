"""Writes the request log in a thread of its own: a slow or full disk loses rows of the log, and never an answer."""

import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from fullpass.components.serving.log_rows import Exchange, lines_of, logged_columns
from fullpass.components.serving.served_model import ServedModel
from fullpass.components.serving_log.columns import DAY, LogFormat
from fullpass.components.serving_log.log_files import OpenFile, complete_files, name_as_complete

_MOST_WAITING = 64 << 20
"""Bytes of the bodies of requests that wait for the disk at most."""
_MOST_TOGETHER = 256
"""Requests that are written at once at most."""
_WAIT_SECONDS = 0.5
"""Seconds until the thread looks whether a file is old enough."""
_TELL_SECONDS = 60.0
"""Seconds between two notes about lost rows."""


@dataclass(frozen=True)
class LogOptions:
    """What is logged, and where.

    Attributes:
        sample: Probability with which a request is logged.
        format: Format of complete files.
        left_out: Raw columns that are not logged.
        rotate_bytes: Size at which a file is completed.
        rotate_seconds: Age at which a file is completed.
    """

    folder: Path
    sample: float
    format: LogFormat
    left_out: Collection[str]
    rotate_bytes: int
    rotate_seconds: float


class RequestLog:
    """The log of a server.

    Attributes:
        counts: "written" -> rows in files, "lost_queue" -> rows lost because the disk is slow, "lost_disk" -> rows that
            could not be written, "torn" -> lines that a killed process left unfinished.
    """

    def __init__(self, options: LogOptions, model: Callable[[], ServedModel], tell: Callable[[str], None]):
        """Completes the files of killed processes, and starts the thread.

        Args:
            model: Returns the version that answers.

        Raises:
            OSError: The folder cannot be written.
        """
        self._options, self._model, self._tell = options, model, tell
        self.counts: Counter[str] = Counter()
        self._files: dict[str, OpenFile] = {}
        self._waiting: queue.SimpleQueue[Exchange | None] = queue.SimpleQueue()
        self._bytes, self._lock = 0, threading.Lock()
        self._told_at, self._told = float("-inf"), Counter[str]()
        self._lost_because = ""
        options.folder.mkdir(parents=True, exist_ok=True)
        for path, torn in complete_files(options.folder, self._convert).items():
            self.counts["torn"] += torn > 0
            tell(f"Completed {path}, which a server left{f'; its last line was torn, {torn} bytes' * (torn > 0)}.")
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def chosen(self) -> bool:
        """Returns whether the next request is logged, by chance."""
        return random.random() < self._options.sample

    def add(self, exchange: Exchange) -> None:
        """Logs a request soon; if too much waits for the disk already, its rows are lost and counted."""
        with self._lock:
            full = self._bytes + exchange.size > _MOST_WAITING
            self._bytes += 0 if full else exchange.size
        if full:
            self.counts["lost_queue"] += exchange.log_rows
        else:
            self._waiting.put(exchange)

    def close(self) -> None:
        """Writes what waits, and completes the files."""
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        ended = False
        while not ended:
            taken = self._taken()
            ended = None in taken
            self._append([one for one in taken if one is not None])
            self._rotate(at_once=ended)
            self._tell_of_losses(at_once=ended)

    def _taken(self) -> list[Exchange | None]:
        """Waits for requests, and returns those that are there."""
        found: list[Exchange | None] = []
        try:
            found.append(self._waiting.get(timeout=_WAIT_SECONDS))
            while len(found) < _MOST_TOGETHER and found[-1] is not None:
                found.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return found

    def _append(self, exchanges: list[Exchange]) -> None:
        of_days: dict[str, list[Exchange]] = {}
        for one in exchanges:
            of_days.setdefault(one.arrived.strftime(DAY), []).append(one)
        for day, those in of_days.items():
            try:
                rows = [row for one in those for row in lines_of(one, self._options.sample, self._options.left_out)]
                if day not in self._files:
                    self._files[day] = OpenFile(self._options.folder, day)
                self._files[day].write("".join(f"{row}\n" for row in rows).encode())
                self.counts["written"] += len(rows)
            except Exception as error:  # the next rows are logged, whatever is wrong with these
                self._lost_because = str(error)
                self.counts["lost_disk"] += sum(one.log_rows for one in those)
        with self._lock:
            self._bytes -= sum(one.size for one in exchanges)

    def _convert(self, path: Path) -> None:
        """Gives a complete file its final format and name."""
        if self._options.format == "jsonl":
            name_as_complete(path)
            return
        from fullpass.components.serving_log.parquet_files import log_to_parquet

        log_to_parquet(path, logged_columns(self._model(), self._options.left_out))

    def _rotate(self, *, at_once: bool) -> None:
        options = self._options
        for day, file in list(self._files.items()):
            age = time.monotonic() - file.since
            if at_once or age > options.rotate_seconds or file.size > options.rotate_bytes:
                try:
                    self._files.pop(day).finish(self._convert)
                except Exception as error:
                    self._tell(f"A file of the log keeps its unfinished name until the next start: {error}")

    def _tell_of_losses(self, *, at_once: bool) -> None:
        lost = {"lost_queue": "the disk is slow", "lost_disk": self._lost_because}
        if not at_once and time.monotonic() - self._told_at < _TELL_SECONDS:
            return
        for name, why in lost.items():
            if self.counts[name] > self._told[name]:
                self._tell(f"The log lost {self.counts[name] - self._told[name]:,} rows: {why}")
                self._told_at, self._told[name] = time.monotonic(), self.counts[name]
