"""The progress of a running node: one small file, replaced atomically, that the runner reads.

A node may call `report` at any rate from any of its threads and processes, including Beam workers. The local runner
sets an environment variable with the path of the file for each node. Without that variable `report` does nothing.
"""

import contextlib
import glob
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fullpass.base.files import write_atomically
from fullpass.base.json_text import Number, read_parsed, to_json_text

PROGRESS_FILE_VARIABLE = "FULLPASS_PROGRESS_FILE"
Losses = dict[str, list[Number]]
"""Model and rows, such as `trees, validation` -> the loss of each epoch; NaN if it is not finite."""
_LOSSES = {"loss": "train", "val_loss": "validation"}
_CURVES = ".losses"
MIN_INTERVAL_SECONDS = 0.2
"""Seconds between reports of progress, each of which writes a file: less than the display's tick."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The last progress report of a node.

    Attributes:
        total: Total number of units, or None if the node cannot determine it.
        unit: Name of the unit, in the plural: "rows", "batches", "epochs"; "" if nothing is counted yet, and the note
            says what is to come.
        note: A few words about the work, such as "epoch 3 of 10, loss 0.213".
        ends_at: The latest time at which a limit ends the work, in seconds since 1970-01-01 UTC; None without a limit.
        reported_at: Time of the report, in seconds since 1970-01-01 UTC.
    """

    done: int
    total: int | None
    unit: str
    note: str = ""
    reported_at: float
    ends_at: float | None = None


def report(done: int, total: int | None, unit: str, note: str = "", ends_at: float | None = None) -> None:
    """Reports the progress of this node. Cheap: more than five calls a second cost one `stat` each.

    The last report of a count (`done` equal to `total`) is always written.
    """
    path = os.environ.get(PROGRESS_FILE_VARIABLE)
    if not path:
        return
    now = time.time()
    if done != total and _is_recent(path, now):
        return
    # A node must not fail because its progress cannot be written (a full disk, a run that was cleaned up).
    with contextlib.suppress(OSError):
        _replace(path, Progress(done=done, total=total, unit=unit, note=note, reported_at=now, ends_at=ends_at))


class WorkerCounts:
    """Adds what the workers of a node count: each writes its own file next to the progress file, so none waits."""

    def __init__(self, what: str):
        """what: What is counted, as a part of a file name."""
        self._what = what
        self._noted = 0.0

    def of_all(self, worker: str, counts: Sequence[float], *, last: bool = False) -> list[list[float]]:
        """Notes what a worker has counted so far, and returns the counts of every worker.

        Returns none without a runner, and within the interval of `report` unless `last` is set.

        Args:
            worker: Name of the worker among those that count this.
        """
        path, now = os.environ.get(PROGRESS_FILE_VARIABLE), time.time()
        if not path or (not last and 0 <= now - self._noted < MIN_INTERVAL_SECONDS):
            return []
        self._noted = now
        with contextlib.suppress(OSError):  # as in `report`
            write_atomically(Path(f"{path}.{self._what}.{worker}"), json.dumps(list(counts)))
            files = glob.glob(f"{glob.escape(f'{path}.{self._what}')}.*")
            return [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
        return [list(counts)]


class LossCurves:
    """The losses of the models that a node trains, in a file next to the progress file, which is written each epoch."""

    def __init__(self) -> None:
        self._found: Losses = {}

    def add(self, model: str, epoch: int, metrics: Mapping[str, float]) -> None:
        """Notes `loss` and `val_loss` of an epoch, counted from 1; a later note of an epoch takes the place of it."""
        path = os.environ.get(PROGRESS_FILE_VARIABLE)
        if not path:
            return
        for name, rows in _LOSSES.items():
            if name in metrics:
                self._found.setdefault(f"{model}, {rows}", [])[epoch - 1 :] = [metrics[name]]
        with contextlib.suppress(OSError):  # as in `report`
            write_atomically(Path(f"{path}{_CURVES}"), to_json_text(self._found))


def read_losses(path: str | os.PathLike[str]) -> Losses:
    """Returns the losses that were noted next to the progress file `path`; empty if none were."""
    return read_parsed(Losses, f"{path}{_CURVES}") or {}


def read(path: str | os.PathLike[str]) -> Progress | None:
    """Returns the last report in the file `path`, or None if there is none."""
    try:
        return Progress(**json.loads(Path(path).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _is_recent(path: str, now: float) -> bool:
    """Returns whether `path` was modified within the interval; the file shares this limit among a node's processes."""
    try:
        return 0 <= now - os.stat(path).st_mtime < MIN_INTERVAL_SECONDS
    except FileNotFoundError:
        return False


def _replace(path: str, progress: Progress) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=os.path.basename(path))
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(progress), file)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
