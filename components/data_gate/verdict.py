"""What the gate said of a span, as data: it needs neither Beam nor TensorFlow to be read."""

from dataclasses import asdict, dataclass
from typing import Any

from components.data_gate.config import Policy
from components.data_gate.divergence import Divergence

_WORST = 3


@dataclass(frozen=True)
class Finding:
    """Something that moved further than it may. over: measure / limit, to rank by. text: for people, in full."""

    check: str
    subject: str
    policy: Policy
    text: str
    over: float


@dataclass(frozen=True)
class Compared:
    """One series of the newest span against other data. against: what that is. js_limit, linf_limit: without chance."""

    series: str
    against: str
    divergence: Divergence
    js_limit: float
    linf_limit: float

    @property
    def over(self) -> float:
        """By how many times its limit it diverges, beyond chance; 1 is the limit."""
        d = self.divergence
        return max((d.js - d.js_chance) / self.js_limit, (d.linf - d.linf_chance) / self.linf_limit, 0.0)


@dataclass(frozen=True)
class Verdict:
    """What was looked at and what was found.

    span: the newest. rows: of it. previous, window: what it was compared with; empty where there was nothing. findings:
    the most serious first. compared: every series against each of both, the furthest first. notes: what could not be
    looked at, and why.
    """

    span: str
    rows: int
    previous: str
    window: str
    findings: tuple[Finding, ...]
    compared: tuple[Compared, ...]
    notes: tuple[str, ...]

    @property
    def stopped(self) -> bool:
        """Whether nothing may be trained on this data."""
        return any(finding.policy == "stop" for finding in self.findings)

    @property
    def retrain(self) -> bool:
        """Whether something is a reason to train."""
        return any(finding.policy == "retrain" for finding in self.findings)

    @property
    def worst(self) -> tuple[Compared, ...]:
        """The series that moved most, by divergence or by any other check, each once."""
        found = {finding.subject: finding.over for finding in reversed(self.findings)}
        first: dict[str, Compared] = {}
        for one in sorted(self.compared, key=lambda c: -max(c.over, found.get(c.series, 0.0))):
            first.setdefault(one.series, one)
        return tuple(first.values())[:_WORST]

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON has it."""
        return asdict(self) | {"stopped": self.stopped, "retrain": self.retrain}


def read_verdict(fields: dict[str, Any]) -> Verdict:
    """Returns what `to_json` wrote."""
    known = {name: value for name, value in fields.items() if name not in ("stopped", "retrain")}
    findings = tuple(Finding(**one) for one in fields["findings"])
    compared = tuple(Compared(**{**one, "divergence": _read(one["divergence"])}) for one in fields["compared"])
    return Verdict(**{**known, "findings": findings, "compared": compared, "notes": tuple(fields["notes"])})


def _read(fields: dict[str, Any]) -> Divergence:
    shares = {name: tuple(fields[name]) for name in ("bins", "before", "now")}
    return Divergence(**{**fields, **shares})
