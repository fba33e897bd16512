"""The page of a run that the data gate looked at, before anything is trained: why it goes on, or stops."""

from components.data_gate.verdict import Verdict
from components.report.gate import gate_section
from components.report.pages import render_page


def render_gate(name: str, verdict: Verdict) -> str:
    """Returns the page.

    Args:
        name: of the pipeline.
        verdict: of the gate.
    """
    return render_page("data_gate.html", name=name, gate=gate_section(verdict))
