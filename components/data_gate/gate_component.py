"""The DataGate component, which stops a run if SpanComparison has a finding with the policy `stop`.

The gate consists of two nodes, because a failed node publishes no artifacts, and the findings that stop a run must be
published. This node reads a small file, and imports neither Beam nor TensorFlow.
"""

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component

from fullpass.base.errors import UserError, listed
from fullpass.components.artifacts import DataVerdict, SpanComparison
from fullpass.components.data_gate.gate_verdict import GateVerdict, read_comparison


@component
def DataGate(
    comparison: InputArtifact[SpanComparison], verdict: OutputArtifact[DataVerdict], serving: Parameter[str]
) -> None:
    """Fails if a finding's policy is `stop`. serving: the folder that models are pushed to, for the error message."""
    judgment = read_comparison(comparison.uri)
    if judgment.stopped:
        raise UserError(stop_message(judgment, serving))
    verdict.set_string_custom_property("span", judgment.span)
    verdict.set_int_custom_property("warnings", len(judgment.findings))
    verdict.set_int_custom_property("retrain", int(judgment.retrain))


def stop_message(verdict: GateVerdict, serving: str) -> str:
    """Returns the error message of a verdict that stops a run: each finding, and the possible remedies."""
    changed = list(dict.fromkeys(finding.span or verdict.span for finding in verdict.stops))
    return "\n".join(
        [
            f"{listed(changed)} {'has' if len(changed) == 1 else 'have'} changed. Nothing was trained; the model "
            f"served from {serving} is unchanged.",
            *(f"  {finding.text} (gates.{finding.check})" for finding in verdict.stops),
            "If the data is wrong, repair it and run again. If the change is real, `fullpass run FILE --gate warn` "
            "trains on it and releases it for later runs. To only be warned from now on, set the check to `warn`. To "
            "leave stopped spans out of later windows: gates.stopped_spans: gap.",
        ]
    )
