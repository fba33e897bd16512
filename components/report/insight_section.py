"""The section of the report on what the model is worth, and on what it goes by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fullpass.components.report.charts import bar_chart
from fullpass.trainer.insight.reference_words import reference_words

_SHOWN = 20


@dataclass(frozen=True)
class Importance:
    """How much a feature is missed. certain: whether that is more than chance."""

    feature: str
    importance: float
    reach: float

    @property
    def certain(self) -> bool:
        """Whether the interval of 95 % leaves out 0."""
        return self.importance > self.reach


@dataclass(frozen=True)
class Insight:
    """The facts of the section. reference: as a sentence, "" without one. unit: of the importance, in words."""

    reference: str
    features: tuple[Importance, ...]
    chart: Markup
    unit: str


def insight_section(record: Mapping[str, Any]) -> Insight:
    """Returns the facts of `training.json` on the simple reference and the features."""
    found = tuple(Importance(**entry) for entry in record.get("importance", ()))
    missed = {entry.feature: entry.importance for entry in found[:_SHOWN] if entry.importance > 0}
    return Insight(
        reference=reference_words(record.get("reference")),
        features=found,
        chart=bar_chart(missed, unit="", label="importance of features") if missed else Markup(""),
        unit=_unit(record.get("classes", ())),
    )


def _unit(classes: Sequence[str] | Mapping[str, int]) -> str:
    return "log loss" if classes else "squared error, in shares of the label's variance"
