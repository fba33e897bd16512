"""The progress of a training, without its weights."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_SUMS = ("loss", "weight")


@dataclass
class TrainingState:
    """The progress of a training.

    Attributes:
        epoch: The current epoch, from 0.
        step: The updates made in it.
        sums: The sums of the statistics of these updates.
        waited: The seconds of these updates in which the devices waited for input.
        spent: The total seconds of these updates.
        history: One value per completed epoch, by metric.
        best: The smallest monitored value; infinite before the first epoch is completed.
        best_epoch: The epoch of that value, from 1; 0 before.
        stale: The completed epochs since the last improvement, or since the last reduction of the learning rate.
        falls: The number of reductions of the learning rate.
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
    stale: int = 0
    falls: int = 0
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
