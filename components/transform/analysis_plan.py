"""The record of which spans of a window were analyzed, and which came from the cache."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fullpass.base.json_text import parse_json


@dataclass(frozen=True)
class Analysis:
    """The origin of the statistics of each span.

    Attributes:
        hit: Labels of the spans whose statistics came from the cache.
        missed: Label of each analyzed span -> the reason why it was analyzed.
    """

    hit: tuple[str, ...]
    missed: Mapping[str, str]

    def to_json(self) -> str:
        """Returns the analysis as JSON text."""
        return json.dumps(asdict(self))


def read_analysis(text: str) -> Analysis:
    """Returns an analysis that `to_json` wrote."""
    return parse_json(Analysis, text)
