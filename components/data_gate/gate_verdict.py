"""The verdict on a span. Reading it needs neither Beam nor TensorFlow."""

from dataclasses import asdict, dataclass
from typing import Any

from fullpass.base.files import read_json
from fullpass.base.json_text import parse_fields
from fullpass.components.artifact_files import COMPARISON_FILE
from fullpass.components.data_gate.config import Policy
from fullpass.components.data_gate.divergence import Divergence

_WORST = 3


@dataclass(frozen=True)
class GateFinding:
    """A change beyond its limit.

    Attributes:
        check: Name of the check in the YAML.
        subject: Series, column or span that changed.
        over: Measure / limit, the rank of the finding.
    """

    check: str
    subject: str
    policy: Policy
    text: str
    over: float


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
        notes: Comparisons that were impossible and why, and findings that were reported before.
    """

    span: str
    rows: int
    previous: str
    window: str
    findings: tuple[GateFinding, ...]
    compared: tuple[ComparedSeries, ...]
    notes: tuple[str, ...]

    @property
    def stopped(self) -> bool:
        """Whether a finding stops the run."""
        return any(finding.policy == "stop" for finding in self.findings)

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
