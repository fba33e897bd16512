"""The summary of a span: its row count and the distribution of every series. It is computed once for all windows.

The store is a history, not a cache like that of the analysis (`transform/analyzer_cache.py`): the gate compares with
spans that have left the window, so the newest spans are kept by number and found by a listing. States of the analysis
are found by the fingerprint of a span alone, and kept by last use. Both write to a `folders.Folder`.
"""

import gzip
import hashlib
import json
import logging
import time
import zlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fullpass.base.folders import Folder
from fullpass.base.json_text import to_json_text
from fullpass.components.data_gate.distribution import Distribution, merge
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.summary_entries import Entry, parse_entries

_VERSION = 1
"""Version of the form of a summary; those of another version are computed again."""
_VERSIONS = 4
"""Summaries of one span that are kept, one for each of its newest declarations."""


@dataclass(frozen=True)
class SpanSummary:
    """The summary of one span, or of several spans together.

    Attributes:
        number: Number of the span, or of the newest of several spans.
        label: Label of the same span; empty for a source without spans.
        time: Creation time of the summary, in seconds since 1970.
    """

    number: int
    label: str
    fingerprint: str
    rows: int
    distributions: dict[str, Distribution]
    time: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Returns the summary as a JSON object."""
        return {**vars(self), "distributions": {n: d.to_json() for n, d in self.distributions.items()}}


def read_summary(fields: dict[str, Any]) -> SpanSummary:
    """Returns a summary from the object of `to_json`."""
    distributions = {name: Distribution.from_json(d) for name, d in fields["distributions"].items()}
    return SpanSummary(**{**fields, "distributions": distributions})


def merge_parts(
    number: int, label: str, fingerprint: str, rows: int, parts: Sequence[dict[str, Distribution]]
) -> SpanSummary:
    """Merges the distributions of the parts of a span into its summary."""
    return SpanSummary(number, label, fingerprint, rows, merge_distributions(parts), time.time())


def merge_distributions(parts: Sequence[dict[str, Distribution]]) -> dict[str, Distribution]:
    """Merges the distributions of each series."""
    return {name: merge(part[name] for part in parts) for name in (parts[0] if parts else {})}


def merge_spans(summaries: Sequence[SpanSummary]) -> SpanSummary:
    """Merges the summaries of several spans into one."""
    newest = max(summaries, key=lambda summary: summary.number)
    rows = sum(summary.rows for summary in summaries)
    return merge_parts(newest.number, newest.label, "", rows, [summary.distributions for summary in summaries])


class SummaryStore:
    """The summaries of a pipeline's spans: one file per version of a span, in a folder outside the runs."""

    def __init__(self, folder: str, source: SeriesSource) -> None:
        """Opens a store. source: the series of the summaries; summaries of other series are not read."""
        described = to_json_text(
            [_VERSION, [asdict(one) for one in source.series], dict(source.derive)], sort_keys=True
        )
        self._series = hashlib.sha256(described.encode()).hexdigest()[:8]
        self._folder = Folder(folder)

    def read(self, number: int, fingerprint: str) -> SpanSummary | None:
        """Returns the summary of a span, or None if the store has none."""
        matching = [
            e for e in self._entries() if (e.number, e.fingerprint, e.series) == (number, fingerprint, self._series)
        ]
        return self._open(matching[-1]) if matching else None

    def write(self, summary: SpanSummary) -> None:
        """Writes a summary."""
        entry = Entry(summary.number, int(summary.time * 1e6), summary.fingerprint, self._series)
        self._folder.write(entry.name, gzip.compress(to_json_text(summary.to_json()).encode(), mtime=0))

    def before(self, number: int, *, most: int) -> list[SpanSummary]:
        """Returns the newest versions of up to `most` spans before span `number`, the oldest first."""
        newest = {e.number: e for e in self._entries() if e.series == self._series and e.number < number}
        opened = (self._open(newest[span]) for span in sorted(newest)[-most:])
        return [summary for summary in opened if summary is not None]

    def other_version(self, number: int, fingerprints: Collection[str]) -> list[SpanSummary]:
        """Returns the newest version of a span with none of these fingerprints, or an empty list."""
        others = [e for e in self._entries() if (e.series, e.number) == (self._series, number)]
        opened = (self._open(e) for e in reversed(others) if e.fingerprint not in fingerprints)
        return [summary for summary in opened if summary is not None][:1]

    def keep(self, most: int) -> None:
        """Removes all but the newest versions of the `most` newest spans."""
        versions: dict[int, list[Entry]] = {}
        for entry in self._entries():
            versions.setdefault(entry.number, []).append(entry)
        kept = {e.name for number in sorted(versions)[-most:] for e in versions[number][-_VERSIONS:]}
        for entry in self._entries():
            if entry.name not in kept:
                self._folder.remove(entry.name)

    def _open(self, entry: Entry) -> SpanSummary | None:
        try:
            return read_summary(json.loads(gzip.decompress(self._folder.read(entry.name) or b"")))
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            logging.warning(
                "%s/%s is damaged: %s. It is skipped, or computed again.", self._folder.path, entry.name, error
            )
            return None

    def _entries(self) -> list[Entry]:
        """Returns the files of the store, the oldest first."""
        return parse_entries(self._folder.names())
