"""The page of the data gate, written before training: the reasons why the run continues or stops."""

from fullpass.components.data_gate.gate_verdict import Verdict
from fullpass.components.report.gate_section import gate_section
from fullpass.components.report.pages import render_page


def render_gate(name: str, verdict: Verdict) -> str:
    """Returns the page.

    Args:
        name: name of the pipeline.
        verdict: verdict of the gate.
    """
    return render_page("data_gate.html", name=name, gate=gate_section(verdict))
