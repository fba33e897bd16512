"""Checkpoints of a training, from which an interrupted one resumes."""

import hashlib
import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import tensorflow as tf

from fullpass.base.json_text import to_json_text
from fullpass.trainer.config import CheckpointConfig
from fullpass.trainer.records.record_files import fingerprint_of

_MIN_SECONDS = 10.0
"""Seconds between checkpoints at least with `every_seconds: auto`."""
_SHARE_OF_TIME = 0.01
"""Share of the training that checkpoints may take with `every_seconds: auto`."""
_OLD_SECONDS = 14 * 24 * 3600.0
"""Age from which checkpoints of other trainings are removed: nobody resumes these."""
_SUMS = ("loss", "weight")


def folder_for(work: str, files: Sequence[str], *what: Any) -> str:
    """Returns the checkpoint folder of a training, which depends on its data and configuration only."""
    text = json.dumps([fingerprint_of(files), what], sort_keys=True)
    return os.path.join(work, hashlib.sha256(text.encode()).hexdigest()[:20])


class Checkpoints:
    """The newest checkpoints of one training, in one folder.

    Variables are saved as values, in the given order, so that a training on other devices can resume from them.
    """

    def __init__(
        self, folder: str, config: CheckpointConfig, variables: Mapping[str, Sequence[tf.Variable]], *, chief: bool
    ):
        """Finds the checkpoints in `folder`.

        Args:
            chief: Whether the files of this worker are kept. All workers must save at the same time.
        """
        self._config = config
        self._text = tf.Variable("", dtype=tf.string, trainable=False)
        groups = {name: list(group) for name, group in variables.items()}
        self._checkpoint = tf.train.Checkpoint(text=self._text, **groups)
        self._manager = tf.train.CheckpointManager(self._checkpoint, folder, max_to_keep=config.keep)
        self._writer = self._manager
        if not chief:
            self._writer = tf.train.CheckpointManager(self._checkpoint, tempfile.mkdtemp(), max_to_keep=1)
        self._saved_at, self._saved_step, self.saves, self.seconds, self._last = time.monotonic(), 0, 0, 0.0, 0.0

    def restore(self) -> str | None:
        """Restores the variables from the newest usable checkpoint; returns its text, or None if there is none."""
        for path in reversed(self._manager.checkpoints):
            try:
                self._checkpoint.restore(path).assert_consumed()
            except (tf.errors.OpError, ValueError, AssertionError) as error:
                logging.warning("Checkpoint %s cannot be used: %s", path, error)
            else:
                return str(self._text.numpy().decode())
        return None

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after `step` updates."""
        steps, seconds = self._config.every_steps, self._config.every_seconds
        if steps is not None and step // steps > self._saved_step // steps:
            return True
        if seconds == "auto":
            seconds = max(_MIN_SECONDS, self._last / _SHARE_OF_TIME)
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def save(self, text: str, step: int) -> None:
        """Writes a checkpoint; the folder contains only complete checkpoints at any time."""
        started = time.monotonic()
        self._text.assign(text)
        self._writer.save(checkpoint_number=step)
        self._saved_at, self._saved_step = time.monotonic(), step
        self._last = self._saved_at - started
        self.saves, self.seconds = self.saves + 1, self.seconds + self._last


def remove_checkpoints(folder: str) -> None:
    """Removes the checkpoints of a training."""
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def prune_checkpoints(folder: str) -> None:
    """Removes checkpoints of other trainings in the parent of `folder` that are older than two weeks."""
    work = os.path.dirname(folder)
    for name in tf.io.gfile.listdir(work) if tf.io.gfile.exists(work) else ():
        other = os.path.join(work, name.rstrip("/"))
        if time.time() - tf.io.gfile.stat(other).mtime_nsec / 1e9 > _OLD_SECONDS:
            tf.io.gfile.rmtree(other)


def write_json(path: str, record: Mapping[str, Any]) -> None:
    """Writes a JSON file under another name first, and then renames it."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(f"{path}.tmp", "w") as file:
        file.write(to_json_text(record, indent=2))
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


@dataclass
class TrainingState:
    """The progress of a training.

    Attributes:
        epoch: The current epoch, from 0.
        step: The updates made in it.
        waited: The seconds of these updates in which the devices waited for input.
        spent: The total seconds of these updates.
        history: One value per completed epoch, by metric.
        best: The smallest monitored value; infinite before the first epoch is completed.
        best_epoch: The epoch of that value, from 1; 0 before.
        paid: The smallest monitored value when an epoch last paid for its time; infinite before.
        stale: The completed epochs since the last improvement, or since the last reduction of the learning rate.
        restarts: The epochs, from 1, after which the learning rate was reduced.
        seconds: The total seconds of training, summed over interrupted runs.
    """

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0.0))
    waited: float = 0.0
    spent: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    best: float = math.inf
    best_epoch: int = 0
    paid: float = math.inf
    stale: int = 0
    restarts: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, sums: Mapping[str, Any], *, steps: int, waited: float, spent: float) -> None:
        """Adds updates that were just made."""
        self.step += steps
        self.sums = {name: self.sums[name] + float(value) for name, value in sums.items()}
        self.waited += waited
        self.spent += spent

    def end_epoch(self, metrics: Mapping[str, float]) -> None:
        """Records the metrics of the epoch and begins the next one."""
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self.epoch, self.step = self.epoch + 1, 0
        self.sums = dict.fromkeys(_SUMS, 0.0)
        self.waited = self.spent = 0.0

    def to_json(self) -> str:
        """Returns the state as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TrainingState":
        """Returns the state that `to_json` wrote."""
        return cls(**json.loads(text))
