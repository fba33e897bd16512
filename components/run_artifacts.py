"""What a run has made: the artifacts of its nodes, and the facts that report and summary both read from them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fullpass.base.files import read_bytes
from fullpass.components.data_gate.gate_verdict import GateVerdict, read_comparison
from fullpass.components.evaluation.judge.verdict import Verdict, read_verdict
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.trainer.export.run_provenance import TRAINING_FILE

if TYPE_CHECKING:
    from tfx import types


class RunArtifacts:
    """The artifacts of a run, or the inputs of a node, by name. A run that ended early lacks those of later nodes.

    The names of a run: examples, statistics, comparison (with the declared schema), spans (their comparison),
    transform_graph, tuner_results, model, model_run, parity, evaluation, blessing, serving (the check), pushed, report.
    """

    def __init__(self, by_name: Mapping[str, Sequence[RecordedArtifact]]) -> None:
        """Takes the artifacts of each name."""
        self._by_name = by_name

    @classmethod
    def of(cls, by_name: Mapping[str, Iterable["types.Artifact"]]) -> "RunArtifacts":
        """Returns the artifacts that a node has as its inputs."""
        return cls({name: [RecordedArtifact.of(one.mlmd_artifact) for one in made] for name, made in by_name.items()})

    def all(self, name: str) -> Sequence[RecordedArtifact]:
        """Returns the artifacts of a name, none if the run lacks them."""
        return self._by_name.get(name, ())

    def find(self, name: str) -> RecordedArtifact | None:
        """Returns the artifact of a name, or None."""
        return next(iter(self.all(name)), None)

    def uri(self, name: str) -> str:
        """Returns the folder of an artifact that the run is known to have."""
        return self._by_name[name][0].uri

    @property
    def training(self) -> dict[str, Any]:
        """The content of training.json; empty if there is none."""
        content = read_bytes(f"{self.uri('model_run')}/{TRAINING_FILE}") if self.all("model_run") else None
        return json.loads(content) if content else {}

    @property
    def data_verdict(self) -> GateVerdict | None:
        """The findings of the data gate."""
        return read_comparison(self.uri("spans")) if self.all("spans") else None

    @property
    def blessed(self) -> bool | None:
        """Whether the model is blessed; None if none was evaluated."""
        blessing = self.find("blessing")
        return bool(blessing.properties.get("blessed")) if blessing else None

    @property
    def pushed_to(self) -> str | None:
        """The folder that the model was pushed to, in this run or an earlier one."""
        pushed = self.find("pushed")
        return str(pushed.properties["pushed_destination"]) if pushed and pushed.properties.get("pushed") else None

    @property
    def served_instead(self) -> str | None:
        """The version that was served after the push of another; None if the pushed one was, or nothing was pushed."""
        pushed = self.find("pushed")
        found = pushed.properties if pushed and pushed.properties.get("pushed") else {}
        served = found.get("served_version")
        return str(served) if served and served != found["pushed_version"] else None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the Evaluator; None if no model was evaluated."""
        return read_verdict(self.uri("evaluation")) if self.all("evaluation") else None
