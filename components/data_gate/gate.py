"""DataGate, which stops the run for what SpanComparison found.

They are two nodes, so that what was found is published, and shown, also where it stops the run. This one reads a small
file, and imports neither Beam nor TensorFlow for it.
"""

import json

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio

from components.artifacts import DataVerdict, SpanComparison
from components.data_gate.verdict import Verdict, read_verdict
from preprocessing.errors import UserError


@component
def DataGate(
    comparison: InputArtifact[SpanComparison],
    verdict: OutputArtifact[DataVerdict],
    serving: Parameter[str],
) -> None:
    """Fails if a finding's policy is `stop`.

    Args:
        serving: where models are pushed to, for the message.
    """
    found = read_comparison(comparison.uri)
    if found.stopped:
        raise UserError(stop_message(found, serving))
    verdict.set_string_custom_property("span", found.span)
    verdict.set_int_custom_property("warnings", len(found.findings))
    verdict.set_int_custom_property("retrain", int(found.retrain))


def stop_message(found: Verdict, serving: str) -> str:
    """Returns what moved, by how much, and what to do, of a verdict that stops."""
    stops = [finding for finding in found.findings if finding.policy == "stop"]
    return "\n".join(
        [
            f"{found.span} has changed, and nothing was trained; what is served from {serving} stays.",
            *(f"  {finding.text} (gates.{finding.check})" for finding in stops),
            "If the data is wrong, mend it and run again. If this is how it is now, `fullpass run FILE --gate warn` "
            "trains on it once; to be told only, from now on, write `warn` for the check.",
        ]
    )


def read_comparison(uri: str) -> Verdict:
    """Returns the verdict of a SpanComparison artifact."""
    with fileio.open(f"{uri}/{SpanComparison.FILE}") as file:
        return read_verdict(json.loads(file.read()))
