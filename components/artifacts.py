"""The artifact types of Fullpass. Their names are `module.Class`, the only form that compiles for Kubeflow."""

from tfx.types import artifact

from fullpass.components.artifact_files import PAGE
from fullpass.components.data_gate.config import COMPARISON_FILE


class SchemaComparison(artifact.Artifact):
    """`comparison.txt`: how the declared schema and the one inferred from the data differ."""

    TYPE_NAME = "fullpass.components.artifacts.SchemaComparison"


class ParityReport(artifact.Artifact):
    """`parity.json`: rows compared, largest difference per transformed feature, mismatches."""

    TYPE_NAME = "fullpass.components.artifacts.ParityReport"


class ServingReport(artifact.Artifact):
    """`serving.json`: the predictions of the export in a fresh process, and their latency."""

    TYPE_NAME = "fullpass.components.artifacts.ServingReport"


class Report(artifact.Artifact):
    """`report.html`: one self-contained page about a run; `model_card.md` and `model_card.html`: about its model."""

    TYPE_NAME = "fullpass.components.artifacts.Report"
    FILE = PAGE
    CARD = "model_card.md"
    CARD_PAGE = "model_card.html"


class SpanComparison(artifact.Artifact):
    """`comparison.json`: the newest span against those before, and the gate's findings; `report.html`: its page."""

    TYPE_NAME = "fullpass.components.artifacts.SpanComparison"
    FILE = COMPARISON_FILE
    PAGE = PAGE


class DataVerdict(artifact.Artifact):
    """The data passed the gate. Properties: `warnings`, their number; `retrain`, whether they call for retraining."""

    TYPE_NAME = "fullpass.components.artifacts.DataVerdict"
