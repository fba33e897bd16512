"""The artifact types of Fullpass. Their type names are `module.Class`, the only form that compiles for Kubeflow."""

from tfx.types import artifact

from fullpass.components.artifact_files import COMPARISON_FILE, PAGE


class SchemaComparison(artifact.Artifact):
    """`comparison.txt`: the differences between the declared schema and the schema inferred from the data."""

    TYPE_NAME = "fullpass.components.artifacts.SchemaComparison"


class ParityReport(artifact.Artifact):
    """`parity.json`: the number of compared rows, the largest difference per transformed feature, the mismatches."""

    TYPE_NAME = "fullpass.components.artifacts.ParityReport"


class ServingReport(artifact.Artifact):
    """`serving.json`: the predictions of the export in a fresh process, and their latency."""

    TYPE_NAME = "fullpass.components.artifacts.ServingReport"


class Report(artifact.Artifact):
    """`report.html`: one self-contained page about a run; `model_card.md`, `model_card.html`: the card of its model."""

    TYPE_NAME = "fullpass.components.artifacts.Report"
    FILE = PAGE
    CARD = "model_card.md"
    CARD_PAGE = "model_card.html"


class SpanComparison(artifact.Artifact):
    """`comparison.json`: the newest span against earlier spans, and the gate's findings; `report.html`: its page."""

    TYPE_NAME = "fullpass.components.artifacts.SpanComparison"
    FILE = COMPARISON_FILE
    PAGE = PAGE


class DataVerdict(artifact.Artifact):
    """The data passed the gate. Properties: `warnings`, the number of findings; `retrain`, whether to retrain (0/1)."""

    TYPE_NAME = "fullpass.components.artifacts.DataVerdict"
