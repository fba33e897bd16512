"""File names of a `SummaryStore`: span number, time, fingerprint, and a digest of the series.

Garbage collection reads these names. Therefore this module opens no file and imports no code that computes a summary.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_NAME = re.compile(r"(?P<number>-?\d+)_(?P<time>\d+)_(?P<fingerprint>[^_]*)_(?P<series>[0-9a-f]{8})\.json\.gz")


@dataclass(frozen=True)
class Entry:
    """A file of the store. time: creation time of the summary, in microseconds since 1970."""

    number: int
    time: int
    fingerprint: str
    series: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.number}_{self.time:016d}_{self.fingerprint}_{self.series}.json.gz"


def parse_entries(names: Iterable[str]) -> list[Entry]:
    """Returns the entries among file names, the oldest first. Other file names are ignored."""
    matches = filter(None, map(_NAME.fullmatch, names))
    every = [Entry(int(m["number"]), int(m["time"]), m["fingerprint"], m["series"]) for m in matches]
    return sorted(every, key=lambda entry: entry.time)


def needed(names: Iterable[str], fingerprints: Collection[str], *, before: int, versions: int) -> set[str]:
    """Returns the names of the files that the next run may compare with, and of the files of kept spans.

    Files whose series differ from those of the newest file are not needed.

    Args:
        before: Number of earlier spans that the newest span is compared with.
        versions: Number of versions per span; a source without spans is compared with its previous version.
    """
    every = parse_entries(names)
    readable = [entry for entry in every if entry.series == every[-1].series]
    of_span: dict[int, list[Entry]] = {}
    for entry in readable:
        of_span.setdefault(entry.number, []).append(entry)
    compared = {e.name for number in sorted(of_span)[-before - 1 :] for e in of_span[number][-versions:]}
    return compared | {entry.name for entry in readable if entry.fingerprint in fingerprints}
