"""The files of a `SummaryStore` by their names: of which span, of which records, what is looked at, and when.

Nothing here opens one, or needs what computes what is in it.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_NAME = re.compile(r"(?P<number>-?\d+)_(?P<time>\d+)_(?P<fingerprint>[^_]*)_(?P<what>[0-9a-f]{8})\.json\.gz")


@dataclass(frozen=True)
class Entry:
    """A file of the store. what: digest of what is looked at. time: microseconds since 1970."""

    number: int
    time: int
    fingerprint: str
    what: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.number}_{self.time:016d}_{self.fingerprint}_{self.what}.json.gz"


def entries(names: Iterable[str]) -> list[Entry]:
    """Returns those of some names that are of the store, the oldest first."""
    found = filter(None, map(_NAME.fullmatch, names))
    every = [Entry(int(m["number"]), int(m["time"]), m["fingerprint"], m["what"]) for m in found]
    return sorted(every, key=lambda entry: entry.time)


def needed(names: Iterable[str], fingerprints: Collection[str], *, before: int, versions: int) -> set[str]:
    """Returns the names of the files that runs need to compare the newest span, and that kept spans are told by.

    What was looked at otherwise than it was last, helps no run.

    Args:
        names: of the store.
        fingerprints: of spans that are kept.
        before: spans before the newest that it is compared with.
        versions: of a span, how many: what else it held before may be all that there is to compare it with.
    """
    every = entries(names)
    readable = [entry for entry in every if entry.what == every[-1].what]
    of_span: dict[int, list[Entry]] = {}
    for entry in readable:
        of_span.setdefault(entry.number, []).append(entry)
    compared = {e.name for number in sorted(of_span)[-before - 1 :] for e in of_span[number][-versions:]}
    return compared | {entry.name for entry in readable if entry.fingerprint in fingerprints}
