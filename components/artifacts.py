"""Artifact types of our own. Names are `module.Class`, the only form that compiles for Kubeflow."""

from tfx.types import artifact

from components.data_gate.config import COMPARISON_FILE


class SchemaComparison(artifact.Artifact):
    """`comparison.txt`: how the declared schema and the one inferred from the data differ."""

    TYPE_NAME = "components.artifacts.SchemaComparison"


class ParityReport(artifact.Artifact):
    """`parity.json`: rows compared, largest difference per transformed feature, mismatches."""

    TYPE_NAME = "components.artifacts.ParityReport"


class ServingReport(artifact.Artifact):
    """`serving.json`: what the export answered in a fresh process, and how fast."""

    TYPE_NAME = "components.artifacts.ServingReport"


class Report(artifact.Artifact):
    """`report.html`: one page about a run, whole in itself."""

    TYPE_NAME = "components.artifacts.Report"
    FILE = "report.html"


class SpanComparison(artifact.Artifact):
    """`comparison.json`: the newest span against those before, and what the gate makes of it; `report.html`, a page."""

    TYPE_NAME = "components.artifacts.SpanComparison"
    FILE = COMPARISON_FILE
    PAGE = "report.html"


class DataVerdict(artifact.Artifact):
    """That the data may be trained on. Properties: `warnings`, how many; `retrain`, whether they are a reason to."""

    TYPE_NAME = "components.artifacts.DataVerdict"
