"""The verdict on a span. Reading it needs neither Beam nor TensorFlow."""

from dataclasses import asdict, dataclass
from typing import Any

from fullpass.base.files import read_json
from fullpass.base.json_text import parse_fields
from fullpass.components.artifact_files import COMPARISON_FILE
from fullpass.components.data_gate.config import Policy
from fullpass.components.data_gate.divergence import Divergence

_WORST = 3
"""Findings that a summary names."""


@dataclass(frozen=True)
class GateFinding:
    """A change beyond its limit.

    Attributes:
        check: Name of the check in the YAML.
        subject: Series, column or span that changed.
        over: Measure / limit, the rank of the finding.
        span: Label of the span that changed, if it is not the newest; the text names it too.
    """

    check: str
    subject: str
    policy: Policy
    text: str
    over: float
    span: str = ""


@dataclass(frozen=True)
class SpanRelease:
    """Why a stopped span may be trained on.

    Attributes:
        by: Who released it; empty if it was judged again and passed.
        how: The option, or what changed.
        run, at: The run that released it, and the time in UTC.
    """

    by: str
    how: str
    run: str = ""
    at: str = ""

    @property
    def words(self) -> str:
        """The release as text for people."""
        return f"released{f' by {self.by}' if self.by else ''} ({self.how}) in run {self.run or 'unknown'}, {self.at}"


@dataclass(frozen=True)
class JudgedSpan:
    """The data gate's decision about one content of a span, which later runs read.

    Attributes:
        content: Digest of its files and of the joined tables that its rows see.
        limits: Digest of the settings by which it was judged.
        fingerprint: That of its examples, as its summary has it.
        findings: Those that stop a run; empty if it passed.
        run, at: The run that judged it, and the time in UTC.
        release: None if nobody has released it.
    """

    number: int
    label: str
    content: str
    limits: str = ""
    fingerprint: str = ""
    findings: tuple[GateFinding, ...] = ()
    run: str = ""
    at: str = ""
    release: SpanRelease | None = None

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.label or "the data"

    @property
    def words(self) -> str:
        """What became of it after it was stopped, as text for people."""
        stopped = f"{self.name} was stopped by run {self.run or 'unknown'}"
        return f"{stopped} and {self.release.words if self.release else 'is not released'}"


@dataclass(frozen=True)
class ComparedSeries:
    """One series of the newest span, compared with other data.

    Attributes:
        js_limit, linf_limit: Limits of the YAML. The divergence that chance explains is added to them.
    """

    series: str
    against: str
    divergence: Divergence
    js_limit: float
    linf_limit: float

    @property
    def over(self) -> float:
        """The divergence beyond chance, as a multiple of its limit."""
        d = self.divergence
        return max((d.js - d.js_chance) / self.js_limit, (d.linf - d.linf_chance) / self.linf_limit, 0.0)


@dataclass(frozen=True)
class GateVerdict:
    """The findings about a span, and all comparisons that they are based on.

    Attributes:
        previous, window: Labels of the data that it was compared with; empty if there was none.
        findings: The most serious first.
        compared: Every comparison, the largest divergence first.
        notes: Comparisons that were impossible and why, findings that were reported before, gaps and releases.
        released: Spans of the window that were stopped, and released by this run or an earlier one.
        gaps: Stopped spans that the window leaves out.
    """

    span: str
    rows: int
    previous: str
    window: str
    findings: tuple[GateFinding, ...]
    compared: tuple[ComparedSeries, ...]
    notes: tuple[str, ...]
    released: tuple[JudgedSpan, ...] = ()
    gaps: tuple[JudgedSpan, ...] = ()

    @property
    def stops(self) -> tuple[GateFinding, ...]:
        """The findings that stop the run."""
        return tuple(finding for finding in self.findings if finding.policy == "stop")

    @property
    def stopped(self) -> bool:
        """Whether a finding stops the run."""
        return bool(self.stops)

    @property
    def retrain(self) -> bool:
        """Whether a finding is a reason to train."""
        return any(finding.policy == "retrain" for finding in self.findings)

    @property
    def worst(self) -> tuple[ComparedSeries, ...]:
        """The series that changed most by divergence or by another check, each once."""
        excess_of = {finding.subject: finding.over for finding in reversed(self.findings)}
        first: dict[str, ComparedSeries] = {}
        for one in sorted(self.compared, key=lambda c: -max(c.over, excess_of.get(c.series, 0.0))):
            first.setdefault(one.series, one)
        return tuple(first.values())[:_WORST]

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict as a JSON object."""
        return asdict(self) | {"stopped": self.stopped, "retrain": self.retrain}


def parse_verdict(fields: dict[str, Any]) -> GateVerdict:
    """Returns a verdict from the object of `to_json`."""
    return parse_fields(GateVerdict, fields)


def read_comparison(uri: str) -> GateVerdict:
    """Returns the verdict of a SpanComparison artifact."""
    return parse_verdict(read_json(f"{uri}/{COMPARISON_FILE}"))
