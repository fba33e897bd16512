"""Where a training stands, apart from its weights."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_SUMS = ("loss", "weight")


@dataclass
class State:
    """Where a training stands.

    Attributes:
        epoch: being run, from 0.
        step: updates made in it.
        sums: statistics of these updates, added up.
        waited: seconds of these updates in which the devices had nothing to do for want of input.
        spent: seconds of these updates in all.
        history: metric -> one value per epoch done.
        best: smallest monitored value, infinite before the first epoch is done.
        best_epoch: its epoch, from 1; 0 before.
        seconds: trained in all, over interruptions.
    """

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0.0))
    waited: float = 0.0
    spent: float = 0.0
    history: dict[str, list[float]] = field(default_factory=dict)
    best: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0

    def add(self, sums: Mapping[str, Any], *, steps: int, waited: float, spent: float) -> None:
        """Takes in updates just made."""
        self.step += steps
        self.sums = {name: self.sums[name] + float(value) for name, value in sums.items()}
        self.waited += waited
        self.spent += spent

    def end_epoch(self, metrics: Mapping[str, float]) -> None:
        """Takes in the metrics of the epoch, and goes on to the next."""
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self.epoch, self.step = self.epoch + 1, 0
        self.sums = dict.fromkeys(_SUMS, 0.0)
        self.waited = self.spent = 0.0

    def to_json(self) -> str:
        """Returns the state as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "State":
        """Returns the state that `to_json` wrote."""
        return cls(**json.loads(text))
