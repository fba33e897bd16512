"""The records of runs in a metadata store: opened without TFX, redacted on write, and read by run, node and output."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ml_metadata import proto
from ml_metadata.metadata_store.metadata_store import MetadataStore

from fullpass.base.locks import exclusive, for_reading
from fullpass.base.redact import redact
from fullpass.components.internals.tfx_internals import constants
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.pipeline.record.events import RunResult
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.root.layout import lock_of

RESOLVER_TYPE = "tfx.dsl.components.common.resolver.Resolver"
OUTPUT_EVENTS = frozenset({proto.Event.OUTPUT, proto.Event.INTERNAL_OUTPUT, proto.Event.DECLARED_OUTPUT})
_RECORDS = (proto.Artifact, proto.Execution, proto.Context)
_CONTEXT = re.compile(r"contexts_\d+\.id = (\d+)")
_IN_CONTEXTS = re.compile(rf"\(?{_CONTEXT.pattern}\)?(?: AND \(?{_CONTEXT.pattern}\)?)*")


class RedactedStore:
    """Forwards every call to a store; the text properties of records are redacted before they are put."""

    def __init__(self, store: Any) -> None:
        """Takes the store of ML Metadata."""
        self._store = store

    def get_executions(self, list_options: Any = None) -> list[proto.Execution]:
        """Returns executions; those of all the contexts that a query names are found through its newest context.

        TFX's launcher asks so for every node. ML Metadata 1.21 has no queries, and TFX then reads all executions of the
        pipeline: seconds after 1,000 runs.
        """
        query = getattr(list_options, "filter_query", None) or ""
        if not _IN_CONTEXTS.fullmatch(query):
            return self._store.get_executions(list_options=list_options)
        return executions_in(self._store, {int(number) for number in _CONTEXT.findall(query)})

    def __getattr__(self, name: str) -> Any:
        """Returns a method of the store."""
        method = getattr(self._store, name)
        return _redacting(method) if name.startswith("put_") else method


def _redacting(put: Callable[..., Any]) -> Callable[..., Any]:
    def put_redacted(*values: Any, **named: Any) -> Any:
        _redact_records([*values, *named.values()])
        return put(*values, **named)

    return put_redacted


def _redact_records(value: Any) -> None:
    """Redacts records in place, in lists and pairs too, so the records in memory match the written ones."""
    if isinstance(value, _RECORDS):
        for properties in (value.properties, value.custom_properties):
            for held in properties.values():
                if held.HasField("string_value"):
                    held.string_value = redact(held.string_value)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            _redact_records(inner)


@contextmanager
def locked_store(path: Path, *, writes: bool = False) -> Iterator[RedactedStore]:
    """Yields the store of the SQLite file `path`, which redacts secrets on write.

    Args:
        path: The file; it must exist unless `writes` is true.
    """
    config = proto.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    if not writes:
        config.sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READONLY
    with (exclusive if writes else for_reading)(lock_of(path)):
        yield RedactedStore(MetadataStore(config))


def outputs_of_node(result: RunResult, node_id: str) -> dict[str, list[RecordedArtifact]]:
    """Returns the output artifacts of a node in a run, by output name; cached and reused nodes have outputs too.

    Raises:
        KeyError: The run has no such node.
    """
    result.node(node_id)
    return outputs_in(result.metadata_path, result.pipeline_name, result.recorded_as or result.run_id, node_id)


def outputs_in(path: Path, pipeline_name: str, run_id: str, node_id: str) -> dict[str, list[RecordedArtifact]]:
    """Returns the output artifacts of a node in a run, by output name; empty if it was not part of the run."""
    with locked_store(path) as store:
        found = artifacts_of(store, executions_of(store, pipeline_name, run_id, node_id), OUTPUT_EVENTS)
    return {name: [RecordedArtifact.of(artifact) for artifact in made] for name, made in found.items()}


def artifacts_of(
    store: Any, executions: Sequence[proto.Execution], kinds: Collection[int]
) -> dict[str, list[proto.Artifact]]:
    """Returns the artifacts of executions by name; kinds: the types of events, such as those of outputs."""
    events = store.get_events_by_execution_ids([one.id for one in executions]) if executions else []
    events = [event for event in events if event.type in kinds]
    artifacts = {artifact.id: artifact for artifact in store.get_artifacts_by_id([e.artifact_id for e in events])}
    found: dict[str, list[proto.Artifact]] = {}
    for event in events:
        found.setdefault(event.path.steps[0].key, []).append(artifacts[event.artifact_id])
    return found


def outputs_by_node(path: Path, run_id: str) -> dict[str, set[str]]:
    """Returns the addresses of the artifacts that are the outputs of each node of a run."""
    made: dict[str, set[str]] = {}
    with locked_store(path) as store:
        run = store.get_context_by_type_and_name(constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id)
        nodes = {one.id: node_of(store, one) for one in (store.get_executions_by_context(run.id) if run else ())}
        found = store.get_events_by_execution_ids(list(nodes)) if nodes else []
        events = [event for event in found if event.type in OUTPUT_EVENTS]
        addresses = {one.id: one.uri for one in store.get_artifacts_by_id([event.artifact_id for event in events])}
    for event in events:
        made.setdefault(nodes[event.execution_id], set()).add(addresses[event.artifact_id])
    return made


def executions_of(store: Any, pipeline_name: str, run_id: str, node_id: str) -> Sequence[proto.Execution]:
    """Returns the executions of a node in a run, from a store of ML Metadata; empty if it was not part of the run."""
    run = store.get_context_by_type_and_name(constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id)
    node = store.get_context_by_type_and_name(constants.NODE_CONTEXT_TYPE_NAME, f"{pipeline_name}.{node_id}")
    if run is None or node is None:
        return ()
    return executions_in(store, {run.id, node.id})


def executions_in(store: Any, contexts: set[int]) -> list[proto.Execution]:
    """Returns the executions of all contexts: those of the newest, which has the fewest, that are in the others too."""
    found = store.get_executions_by_context(max(contexts))
    if len(contexts) == 1:
        return found
    return [e for e in found if contexts <= {context.id for context in store.get_contexts_by_execution(e.id)}]


def recorded_facts(run: proto.Context) -> dict[str, Any]:
    """Returns the provenance that `facts_as_properties` put on the context of a run; empty if there is none."""
    recorded = {name: value.string_value for name, value in run.custom_properties.items()}
    if "config" not in recorded:
        return {}
    config = {"hash": recorded["config_hash"], "yaml": recorded["config"]}
    occasion = recorded.get("occasion") or None
    return {"run": run.name, "occasion": occasion, "config": config, "code": json.loads(recorded["code"])}


def facts_as_properties(facts: RunFacts) -> dict[str, str]:
    """Returns the provenance of a run as properties of its context: its occasion, the YAML, and the code as JSON."""
    of_yaml = {"config_hash": facts.config["hash"], "config": facts.config["yaml"]}
    return {"occasion": facts.occasion or "", **of_yaml, "code": json.dumps(facts.code)}


def node_of(store: Any, execution: proto.Execution) -> str:
    """Returns the node id of an execution in a metadata store."""
    contexts = store.get_contexts_by_execution(execution.id)
    [node] = [context.name for context in contexts if context.type == constants.NODE_CONTEXT_TYPE_NAME]
    return str(node.partition(".")[2])
