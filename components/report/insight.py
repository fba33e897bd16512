"""What the report shows of a model's insight: the simple reference, feature importances, and images."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fullpass.components.pages.charts import bar_chart, shortened
from fullpass.trainer.insight.words import reference_words

_SHOWN = 20


@dataclass(frozen=True)
class Importance:
    """The permutation importance of a feature. reach: half width of its 95 % interval."""

    feature: str
    importance: float
    reach: float

    @property
    def certain(self) -> bool:
        """Whether the 95 % interval excludes 0."""
        return self.importance > self.reach


@dataclass(frozen=True)
class Insight:
    """The facts of the section. reference: a sentence, "" if there is none. unit: unit of the importance, as text."""

    reference: str
    features: tuple[Importance, ...]
    chart: Markup
    unit: str


def insight_section(record: Mapping[str, Any]) -> Insight:
    """Returns the facts about the simple reference and the features from `training.json`."""
    importances = tuple(Importance(**entry) for entry in record.get("importance", ()))
    shown = {entry.feature: entry.importance for entry in importances[:_SHOWN] if entry.importance > 0}
    return Insight(
        reference=reference_words(record.get("reference")),
        features=importances,
        chart=bar_chart(shown, unit="", label="importance of features") if shown else Markup(""),
        unit=_unit(record.get("classes", ())),
    )


def _unit(classes: Sequence[str] | Mapping[str, int]) -> str:
    return "log loss" if classes else "squared error, in shares of the label's variance"


_LONGEST = 40
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


@dataclass(frozen=True)
class ShownImage:
    """An image and its prediction. png: the image in base64. probability: probability of the predicted class."""

    png: str
    label: str
    prediction: str
    probability: float
    right: bool


@dataclass(frozen=True)
class Images:
    """The images of the section; none for a model without images."""

    wrong: tuple[ShownImage, ...] = ()
    right: tuple[ShownImage, ...] = ()


def image_section(record: Mapping[str, Any]) -> Images:
    """Returns the images in `training.json`; long names of classes are cut."""
    images = [
        ShownImage(
            png=entry["png"],
            label=shortened(entry["label"], _LONGEST),
            prediction=shortened(entry["prediction"], _LONGEST),
            probability=float(entry["probability"]),
            right=bool(entry["right"]),
        )
        for entry in record.get("images", ())
        if _BASE64.fullmatch(entry["png"])
    ]
    return Images(tuple(i for i in images if not i.right), tuple(i for i in images if i.right))
