"""What a watch found: each change with the hour in which it began, and what the YAML makes of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fullpass.components.data_gate.config import Policy

_ORDER = ("stop", "retrain", "warn")


@dataclass(frozen=True)
class WatchFinding:
    """A change beyond its limit.

    Attributes:
        check: Name of the check in the YAML, such as `drift` or `live`.
        subject: Column, metric or series that changed.
        version: The version that answered.
        first: The hour in which it began, `2026-01-08T07`, or the day, UTC.
        last: The last day on which it was found.
        over: Measure / limit.
        judged: The newest day that its check could judge, if that is another than the newest day that is over: labels
            and training rows come later than requests.
    """

    check: str
    subject: str
    policy: Policy
    version: int
    first: str
    last: str
    text: str
    over: float
    judged: str = ""

    @property
    def key(self) -> str:
        """What changed, and of which version."""
        return f"{self.check} {self.subject} {self.version}"

    @property
    def days(self) -> tuple[str, str]:
        """The first day and the last."""
        return self.first[:10], self.last

    def is_in(self, known: Mapping[str, str]) -> bool:
        """Returns whether an earlier watch found it too. known: key -> last day of what was found then.

        The first day may move, as more labels are known; the same change has days in common.
        """
        return known.get(self.key, "") >= self.days[0]

    @property
    def words(self) -> str:
        """The finding as a line for people."""
        since = self.first if self.first[:10] == self.last else f"{self.first} to {self.last}"
        return f"{self.policy}: {self.check}: since {since}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Returns the finding as a JSON object."""
        return asdict(self)


def most_serious_first(findings: list[WatchFinding]) -> tuple[WatchFinding, ...]:
    """Returns findings without ignored ones, the most serious first, then the oldest."""
    kept = [finding for finding in findings if finding.policy != "ignore"]
    return tuple(sorted(kept, key=lambda f: (_ORDER.index(f.policy), f.first, -f.over)))


def lasting(findings: list[WatchFinding], days: list[str]) -> list[WatchFinding]:
    """Returns findings of single days as findings that last; those of the same subject on judged days in a row are one.

    Args:
        findings: In the order of their days.
        days: All judged days, the oldest first.
    """
    found: dict[tuple[str, str, int], list[WatchFinding]] = {}
    for finding in findings:
        of = found.setdefault((finding.check, finding.subject, finding.version), [])
        if of and days.index(finding.last) - days.index(of[-1].last) <= 1:
            worst = max(of[-1], finding, key=lambda f: f.over)
            first = min(of[-1].first, finding.first)
            of[-1] = replace(worst, first=first, last=finding.last)
        else:
            of.append(finding)
    return [finding for of in found.values() for finding in of]
