"""The file of texts of the eval split with the model's predictions. The report reads it without TensorFlow."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from fullpass.base.files import read_bytes
from fullpass.base.json_text import to_json_text

FILE = "shown_texts.json"


@dataclass(frozen=True)
class ShownText:
    """The texts of a row of the eval split.

    Attributes:
        texts: The text of each text feature, cut if it is long.
        label: The name of the row's class.
        prediction: The class that the model predicts.
        probability: The probability of the prediction.
    """

    texts: Mapping[str, str]
    label: str
    prediction: str
    probability: float

    @property
    def right(self) -> bool:
        """Whether the prediction is right."""
        return self.label == self.prediction


def to_json(shown: Sequence[ShownText]) -> str:
    """Returns the content of FILE."""
    return to_json_text([asdict(one) for one in shown], indent=1)


def read_texts(folder: str) -> tuple[ShownText, ...]:
    """Returns the texts of an evaluation; empty for an earlier release or a model without texts."""
    content = read_bytes(f"{folder}/{FILE}")
    return () if content is None else tuple(ShownText(**one) for one in json.loads(content))
