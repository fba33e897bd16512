"""The training part of the summary: epochs, devices, the wait for input, and the trials of a search."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from fullpass.base.metric_text import metric_text
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.printing import short_value, simple_table
from fullpass.trainer.insight.words import ended_words, reference_words, tried_words
from fullpass.trainer.tuning.search_space import LARGER_IS_BETTER, OBJECTIVES, decode_choice

_MOST_TRIALS = 10
_MOST_ANEW = 3


@dataclass(frozen=True)
class TrainingFacts:
    """The content of training.json.

    Attributes:
        input_wait: Share of the updates' time spent waiting for input.
        warm_start: Source of the initial weights, and how many of them were reused fully, partly, or not.
        ended_by: `epochs`, early_stopping or time.
        reference: The result of a linear model on the same rows.
        compared: Kind of model -> metric, if several were trained.
    """

    epochs: int
    best_epoch: int
    devices: str
    examples_per_second: int
    input_wait: float
    resumed_at_update: int
    warm_start: dict[str, Any] | None = None
    ended_by: str = "epochs"
    reference: dict[str, Any] | None = None
    compared: dict[str, float] | None = None
    rows: dict[str, int] | None = None
    model: dict[str, Any] | None = None
    blend: dict[str, Any] | None = None

    @classmethod
    def of(cls, record: dict[str, Any]) -> "TrainingFacts":
        """Returns the facts of a Trainer's record."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})

    @property
    def words(self) -> str:
        """The facts as one line."""
        resumed = (
            f"; resumed after update {self.resumed_at_update:,} of an earlier run" if self.resumed_at_update else ""
        )
        ended = ended_words(epochs=self.epochs, best_epoch=self.best_epoch, ended_by=self.ended_by)
        why = f" ({ended})" if ended else ""
        return (
            f"{self.epochs} epochs, the best {self.best_epoch}{why}, on {self.devices}, {self.examples_per_second:,} "
            f"examples a second, {self.input_wait:.0%} of the time waiting for input{resumed}"
        )

    @property
    def simple_reference(self) -> str:
        """The result of a linear model on the same rows, as one line; "" if there is none."""
        return reference_words(self.reference)

    @property
    def models(self) -> str:
        """The kinds of models that were tried, and which was kept, as one line; "" if there was one kind."""
        return tried_words(vars(self)) if self.compared else ""

    @property
    def beginning(self) -> str:
        """The source of the initial weights, as one line; "" if no warm start was requested."""
        said = self.warm_start
        if said is None or said["asked"] == "none":
            return ""
        if said["from"] is None:
            return "from scratch: no blessed model describes its weights"
        anew = [weight for weight in said["weights"] if weight["outcome"] == "anew"]
        shown = "; ".join(f"{weight['weight']} ({weight['why']})" for weight in anew[:_MOST_ANEW])
        more = f" and {len(anew) - _MOST_ANEW} more, see training.json" if len(anew) > _MOST_ANEW else ""
        counts = f"{said['taken']} weights reused, {said['partly']} in part, {said['anew']} initialized"
        return f"{counts}{f': {shown}{more}' if anew else ''}; from {said['from']}"


@dataclass(frozen=True)
class Trials:
    """The successful trials of a search, best first: (score, path -> value)."""

    objective: str
    rows: tuple[tuple[float, dict[str, Any]], ...]

    def records(self) -> list[dict[str, Any]]:
        """Returns the trials as JSON data."""
        return [{self.objective: score, "hyperparameters": values} for score, values in self.rows]


def read_trials(folder: str, config: PipelineConfig) -> Trials | None:
    """Returns the trials of a Tuner's `tuner_results`."""
    file = Path(folder) / "tuner_results.json"
    if config.tuning is None or not file.exists():
        return None
    objective = config.tuning.objective or OBJECTIVES[config.label.task][0]
    search = config.tuning.search
    rows = [
        (float(row["score"]), {path: decode_choice(spec, row[path]) for path, spec in search.items()})
        for row in json.loads(file.read_text())
    ]
    rows.sort(key=lambda row: row[0], reverse=objective in LARGER_IS_BETTER)
    return Trials(objective, tuple(rows))


def trials_table(trials: Trials) -> Table:
    """Returns the best trials as a table."""
    shown = trials.rows[:_MOST_TRIALS]
    title = f"Trials, the best {len(shown)} of {len(trials.rows)}; the first was trained"
    headings = (f"eval {trials.objective}", *(shown[0][1] if shown else ()))
    rows = [(metric_text(score), *map(short_value, values.values())) for score, values in shown]
    return simple_table(headings, rows, title=title, right=headings)
