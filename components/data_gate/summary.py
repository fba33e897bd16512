"""What is kept of a span: its rows, and the distribution of every series. Small, and computed once for all windows."""

import gzip
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from components.data_gate.distribution import Distribution, merged
from components.data_gate.entries import Entry, entries
from components.data_gate.series import Series
from components.folder import Folder
from preprocessing.config import PreprocessingConfig

_VERSION = 1
_VERSIONS = 4


@dataclass(frozen=True)
class Summary:
    """One span, or several together.

    number, label: of the span; of several, of the newest; the label is empty where there are no spans. fingerprint: of
    its records. rows: that examples were made of. distributions: by name of the series. time: when it was made, in
    seconds since 1970.
    """

    number: int
    label: str
    fingerprint: str
    rows: int
    distributions: dict[str, Distribution]
    time: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return {**vars(self), "distributions": {n: d.to_json() for n, d in self.distributions.items()}}


def read_summary(fields: dict[str, Any]) -> Summary:
    """Returns what `to_json` wrote."""
    distributions = {name: Distribution.from_json(d) for name, d in fields["distributions"].items()}
    return Summary(**{**fields, "distributions": distributions})


def joined(number: int, label: str, fingerprint: str, rows: int, parts: Sequence[dict[str, Distribution]]) -> Summary:
    """Returns the summary of rows whose distributions are known part by part."""
    names = parts[0] if parts else {}
    distributions = {name: merged(part[name] for part in parts) for name in names}
    return Summary(number, label, fingerprint, rows, distributions, time.time())


def together(summaries: Sequence[Summary]) -> Summary:
    """Returns several spans as one."""
    newest = max(summaries, key=lambda summary: summary.number)
    rows = sum(summary.rows for summary in summaries)
    return joined(newest.number, newest.label, "", rows, [summary.distributions for summary in summaries])


class SummaryStore:
    """Summaries of a pipeline's spans, one file each, beside the runs."""

    def __init__(self, folder: str, series: Sequence[Series], config: PreprocessingConfig) -> None:
        """Takes a folder, or an address.

        Args:
            folder: where they lie.
            series: what is looked at; summaries of other series are no help.
            config: decides what derived columns are.
        """
        looked_at = json.dumps([_VERSION, [asdict(one) for one in series], config.derive], sort_keys=True)
        self._what = hashlib.sha256(looked_at.encode()).hexdigest()[:8]
        self._folder = Folder(folder)

    def read(self, number: int, fingerprint: str) -> Summary | None:
        """Returns the summary of a span, or None where it is not known."""
        found = [e for e in self._entries() if (e.number, e.fingerprint, e.what) == (number, fingerprint, self._what)]
        return self._open(found[-1]) if found else None

    def write(self, summary: Summary) -> None:
        """Keeps a summary."""
        entry = Entry(summary.number, int(summary.time * 1e6), summary.fingerprint, self._what)
        self._folder.write(entry.name, gzip.compress(json.dumps(summary.to_json()).encode(), mtime=0))

    def before(self, number: int, *, most: int) -> list[Summary]:
        """Returns the newest versions of up to `most` spans before one, the oldest first."""
        newest = {e.number: e for e in self._entries() if e.what == self._what and e.number < number}
        opened = (self._open(newest[span]) for span in sorted(newest)[-most:])
        return [summary for summary in opened if summary is not None]

    def other_version(self, number: int, fingerprint: str) -> list[Summary]:
        """Returns the newest version of a span but the one given; none where there is no other."""
        others = [e for e in self._entries() if (e.what, e.number) == (self._what, number)]
        opened = (self._open(e) for e in reversed(others) if e.fingerprint != fingerprint)
        return [summary for summary in opened if summary is not None][:1]

    def keep(self, most: int) -> None:
        """Drops all but the newest versions of the `most` newest spans."""
        versions: dict[int, list[Entry]] = {}
        for entry in self._entries():
            versions.setdefault(entry.number, []).append(entry)
        kept = {e.name for number in sorted(versions)[-most:] for e in versions[number][-_VERSIONS:]}
        for entry in self._entries():
            if entry.name not in kept:
                self._folder.remove(entry.name)

    def _open(self, entry: Entry) -> Summary | None:
        try:
            return read_summary(json.loads(gzip.decompress(self._folder.read(entry.name) or b"")))
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            return None  # damaged: it is made again

    def _entries(self) -> list[Entry]:
        """Returns the files of the store, the oldest first."""
        return entries(self._folder.names())
