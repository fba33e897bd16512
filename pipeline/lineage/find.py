"""Finds, in the metadata, what a model comes from and what was found out about it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_metadata import proto
from ml_metadata.metadata_store.metadata_store import MetadataStore
from tfx.dsl.compiler import constants

from components.evaluation.config import EvaluationConfig
from components.lineage import GATES, Json, Made, Origins, facts_in_export, lineage_of, made
from pipeline.execution.locks import exclusive
from pipeline.execution.recorded import node_of, recorded_facts


def find_lineage(path: Path, model_uri: str) -> Json | None:
    """Returns the lineage of a model as the metadata has it, or None if it does not know the model.

    A model that was pushed is told as it was when it was pushed; another one as it was judged last.

    Args:
        path: of the metadata, a SQLite file.
        model_uri: of the artifact.
    """
    with _opened(path) as store:
        graph = _Graph(store)
        model = graph.model_at(model_uri)
        if model is None:
            return None
        training = graph.maker(model)
        push = graph.push_of(model)
        judged = graph.inputs(push) if push else {}
        origins = Origins(
            model=made(model),
            examples=[made(span) for span in graph.raw_examples(training)],
            transform_graph=_one(graph.inputs(training).get("transform_graph")),
            evaluation=_one(judged.get("evaluation")),
            blessing=_one(judged.get("blessing")),
            gates={node: made(judged[name][0]) for name, node in GATES.items() if name in judged},
        )
        facts = graph.facts_of(training) or facts_in_export(model_uri)
        evaluated = push.custom_properties["evaluated"].string_value if push else "{}"
    return lineage_of(origins, facts, EvaluationConfig.model_validate_json(evaluated or "{}"))


@contextmanager
def _opened(path: Path) -> Iterator[MetadataStore]:
    """Gives the store of a SQLite file, to be read, while no run writes."""
    config = proto.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    config.sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READONLY
    with exclusive(path.with_name(f"{path.name}.lock")):
        yield MetadataStore(config)


@dataclass(frozen=True)
class _Graph:
    """The artifacts and executions of a metadata store, and the events between them."""

    store: Any

    def model_at(self, uri: str) -> proto.Artifact | None:
        """Returns the newest model artifact at an address."""
        found = [artifact for artifact in self.store.get_artifacts_by_uri(uri) if artifact.type == "Model"]
        return max(found, key=lambda artifact: artifact.id, default=None)

    def maker(self, artifact: proto.Artifact) -> proto.Execution:
        """Returns the execution that made an artifact; those that took it from the cache did not."""
        events = self.store.get_events_by_artifact_ids([artifact.id])
        ids = [event.execution_id for event in events if event.type == proto.Event.OUTPUT]
        return min(self._complete(ids), key=lambda execution: execution.id)

    def inputs(self, execution: proto.Execution) -> dict[str, list[proto.Artifact]]:
        """Returns what an execution took, by the name of the input."""
        return self._at_events(execution, (proto.Event.INPUT,))

    def push_of(self, model: proto.Artifact) -> proto.Execution | None:
        """Returns the execution of the Pusher that pushed a model first, or else the last that decided about it."""
        events = self.store.get_events_by_artifact_ids([model.id])
        takers = self._complete(event.execution_id for event in events if event.type == proto.Event.INPUT)
        pushers = sorted((e for e in takers if node_of(self.store, e) == "Pusher"), key=lambda execution: execution.id)
        created = [execution for execution in pushers if self._created(execution)]
        return (created or pushers[-1:] or [None])[0]

    def raw_examples(self, training: proto.Execution) -> list[proto.Artifact]:
        """Returns the raw examples behind those a model was trained on, which may be raw themselves."""
        ready = self.inputs(training)["examples"]
        raw = [artifact for artifact in ready if "fingerprint" in artifact.custom_properties]
        return raw or self.inputs(self.maker(ready[0]))["examples"]

    def facts_of(self, execution: proto.Execution) -> Json:
        """Returns what the run of an execution said of itself."""
        contexts = self.store.get_contexts_by_execution(execution.id)
        runs = [context for context in contexts if context.type == constants.PIPELINE_RUN_CONTEXT_TYPE_NAME]
        return recorded_facts(min(runs, key=lambda run: run.id)) if runs else {}

    def _created(self, pusher: proto.Execution) -> bool:
        pushed = self._at_events(pusher, (proto.Event.OUTPUT,)).get("pushed_model", [])
        return any(artifact.custom_properties["created"].int_value for artifact in pushed)

    def _complete(self, ids: Iterable[int]) -> list[proto.Execution]:
        executions = self.store.get_executions_by_id(sorted(set(ids)))
        return [e for e in executions if e.last_known_state == proto.Execution.COMPLETE]

    def _at_events(self, execution: proto.Execution, kinds: tuple[int, ...]) -> dict[str, list[proto.Artifact]]:
        events = [e for e in self.store.get_events_by_execution_ids([execution.id]) if e.type in kinds]
        artifacts = {a.id: a for a in self.store.get_artifacts_by_id([event.artifact_id for event in events])}
        found: dict[str, list[proto.Artifact]] = {}
        for event in events:
            found.setdefault(event.path.steps[0].key, []).append(artifacts[event.artifact_id])
        return found


def _one(artifacts: list[proto.Artifact] | None) -> Made | None:
    return made(artifacts[0]) if artifacts else None
