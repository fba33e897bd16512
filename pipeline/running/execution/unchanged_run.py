"""Ends a run of which nothing has changed, without TFX, TensorFlow or Beam.

A successful run of all nodes leaves a state file: a digest of all inputs that determine its nodes, and the state of the
metadata after it. If the next run finds both unchanged and every artifact complete, each node would get its results
from the cache. So that run ends, and the records of the earlier one are its own: nothing is written to the metadata.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fullpass.base import state_file
from fullpass.components.ingest.spans.ingest_request import spans_read
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.library_versions import COMPUTING, version
from fullpass.components.push.push import rolled_back_origins
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import user_digest
from fullpass.pipeline.record import events
from fullpass.pipeline.record.events import Listener, NodeResult, RunResult, Status
from fullpass.pipeline.record.provenance import source_digest
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.sqlite_files import sqlite_state
from fullpass.pipeline.running.execution.artifact_checksums import damaged_artifacts
from fullpass.pipeline.running.execution.records import locked_store

_WHOLE = frozenset({Status.OK, Status.CACHED})


@dataclass(frozen=True)
class LastFullRun:
    """The last successful run of all nodes in a root.

    Attributes:
        inputs: The digest of all its inputs, see `inputs_of`.
        metadata: The state of the metadata after it.
        nodes: Node -> the number of its outputs, and the nodes that it waits for.
    """

    run_id: str
    inputs: str
    metadata: str
    nodes: dict[str, tuple[int, tuple[str, ...]]]


def inputs_of(loaded: Loaded, root: Path, window: Window) -> str:
    """Returns a digest of all inputs of a run's pipeline and its resolvers, except the metadata.

    These are the config, the data, the user's code, the files of vocabularies and weights, Fullpass's
    own code, the versions of the libraries that compute, and the models that a rollback has put aside.
    """
    target = Path(loaded.resolve(loaded.config.push.to))
    decide = [
        loaded.config.model_dump(mode="json"),
        [str(loaded.folder), str(root), str(target)],
        repr(window),
        repr(spans_read(loaded.config.ingest_config, window)),
        user_digest(loaded),
        source_digest(),
        [version(package) for package in COMPUTING],
        sorted(rolled_back_origins(target)),
    ]
    return hashlib.sha256(json.dumps(decide).encode()).hexdigest()


def write_state(root: Path, inputs: str, result: RunResult) -> None:
    """Writes the state file of a run, if all its nodes ran and succeeded. The caller holds the run lock.

    Args:
        root: The root, whose metadata is unchanged since the end of the run.
        inputs: The digest from `inputs_of`, computed before the run started.
    """
    if result.ok and result.recorded_as is None and all(node.status in _WHOLE for node in result.nodes):
        nodes = {node.id: (node.outputs, node.after) for node in result.nodes}
        run = LastFullRun(result.run_id, inputs, sqlite_state(result.metadata_path), nodes)
        state_file.write(RootLayout(root).last_full_run, asdict(run))


def find_unchanged(root: Path, inputs: str) -> LastFullRun | None:
    """Returns the last successful run of all nodes, if nothing has changed since; None if the nodes must run."""
    layout = RootLayout(root)
    try:
        run = state_file.read_as(LastFullRun, layout.last_full_run, "It is written anew after the next run.")
    except (FileNotFoundError, state_file.DamagedState):
        return None
    if run.inputs != inputs or not layout.metadata.is_file() or run.metadata != sqlite_state(layout.metadata):
        return None
    with locked_store(layout.metadata) as store:
        return None if damaged_artifacts(root, store) else run


def repeat(run: LastFullRun, root: Path, name: str, run_id: str, listener: Listener, seconds: float) -> RunResult:
    """Sends the events of a run whose nodes all reuse the results of `run`, and returns its result."""
    nodes = tuple(
        NodeResult(id=node, status=Status.CACHED, outputs=made, after=after)
        for node, (made, after) in run.nodes.items()
    )
    listener(events.RunStarted(run_id=run_id, pipeline_name=name, node_ids=tuple(run.nodes), base_run_id=None))
    for node in nodes:
        listener(events.NodeEnded(result=node))
    result = RunResult(
        run_id=run_id,
        pipeline_name=name,
        metadata_path=RootLayout(root).metadata,
        nodes=nodes,
        seconds=seconds,
        recorded_as=run.run_id,
    )
    listener(events.RunEnded(result=result))
    return result
