"""Reads the lineage of a model from the metadata."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metadata import proto

from fullpass.components.internals.tfx_internals import constants
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.push.model_lineage import facts_in_export, lineage_of
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.pipeline.running.execution.records import artifacts_of, locked_store, node_of, recorded_facts


def find_lineage(path: Path, model_uri: str) -> dict[str, Any] | None:
    """Returns the lineage of a model, or None if the metadata does not contain the model.

    For a pushed model, the lineage holds the verdicts of its first push; for any other, those of the last evaluation.
    """
    with locked_store(path) as store:
        graph = _MetadataGraph(store)
        model = graph.model_at(model_uri)
        if model is None:
            return None
        training = graph.maker(model)
        push = graph.push_of(model)
        found = {
            **(graph.inputs(push) if push else {}),
            "model": [model],
            "examples": graph.raw_examples(training),
            "transform_graph": graph.inputs(training).get("transform_graph", []),
        }
        inputs = RunArtifacts({name: [RecordedArtifact.of(one) for one in made] for name, made in found.items()})
        facts = graph.facts_of(training) or facts_in_export(model_uri)
    return lineage_of(inputs, facts)


def folders_of_examples(path: Path, model_uri: str) -> list[str]:
    """Returns the folders of the raw examples that a model was trained and evaluated on, from the metadata in a file.

    They may be gone. The list is empty if the metadata does not contain the model.
    """
    with locked_store(path) as store:
        graph = _MetadataGraph(store)
        model = graph.model_at(model_uri)
        return [examples.uri for examples in graph.raw_examples(graph.maker(model))] if model else []


@dataclass(frozen=True)
class _MetadataGraph:
    """The artifacts and executions of a metadata store, and the events between them."""

    store: Any

    def model_at(self, uri: str) -> proto.Artifact | None:
        """Returns the newest model artifact at an address."""
        found = [artifact for artifact in self.store.get_artifacts_by_uri(uri) if artifact.type == "Model"]
        return max(found, key=lambda artifact: artifact.id, default=None)

    def maker(self, artifact: proto.Artifact) -> proto.Execution:
        """Returns the execution that produced an artifact, not those that reused it from the cache."""
        events = self.store.get_events_by_artifact_ids([artifact.id])
        ids = [event.execution_id for event in events if event.type == proto.Event.OUTPUT]
        return min(self._complete(ids), key=lambda execution: execution.id)

    def inputs(self, execution: proto.Execution) -> dict[str, list[proto.Artifact]]:
        """Returns the input artifacts of an execution, by input name."""
        return artifacts_of(self.store, [execution], [proto.Event.INPUT])

    def push_of(self, model: proto.Artifact) -> proto.Execution | None:
        """Returns the execution of the Pusher that first pushed a model, or else the last that received it."""
        events = self.store.get_events_by_artifact_ids([model.id])
        takers = self._complete(event.execution_id for event in events if event.type == proto.Event.INPUT)
        pushers = sorted((e for e in takers if node_of(self.store, e) == "Pusher"), key=lambda execution: execution.id)
        created = [execution for execution in pushers if self._created(execution)]
        return (created or pushers[-1:] or [None])[0]

    def raw_examples(self, training: proto.Execution) -> list[proto.Artifact]:
        """Returns the raw examples from which the examples of a training were computed, or these if they are raw."""
        ready = self.inputs(training)["examples"]
        raw = [artifact for artifact in ready if "fingerprint" in artifact.custom_properties]
        return raw or self.inputs(self.maker(ready[0]))["examples"]

    def facts_of(self, execution: proto.Execution) -> dict[str, Any]:
        """Returns the provenance that the run of an execution recorded."""
        contexts = self.store.get_contexts_by_execution(execution.id)
        runs = [context for context in contexts if context.type == constants.PIPELINE_RUN_CONTEXT_TYPE_NAME]
        return recorded_facts(min(runs, key=lambda run: run.id)) if runs else {}

    def _created(self, pusher: proto.Execution) -> bool:
        pushed = artifacts_of(self.store, [pusher], [proto.Event.OUTPUT]).get("pushed_model", [])
        return any(artifact.custom_properties["created"].int_value for artifact in pushed)

    def _complete(self, ids: Iterable[int]) -> list[proto.Execution]:
        executions = self.store.get_executions_by_id(sorted(set(ids)))
        return [e for e in executions if e.last_known_state == proto.Execution.COMPLETE]
