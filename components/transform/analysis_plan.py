"""Which spans of a window were analysed and which came from the cache, as data."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Analysis:
    """Where the statistics of each span came from.

    hit: labels of spans taken from the cache. missed: label of each analysed span -> why.
    """

    hit: tuple[str, ...]
    missed: Mapping[str, str]

    def to_json(self) -> str:
        """Returns the analysis as text."""
        return json.dumps(asdict(self))


def read_analysis(text: str) -> Analysis:
    """Returns an analysis that `to_json` wrote."""
    fields = json.loads(text)
    return Analysis(tuple(fields["hit"]), fields["missed"])
