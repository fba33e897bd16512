"""What a local run tells: the events its listener hears, and the result it ends with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from preprocessing.progress import Progress


class Status(StrEnum):
    """How a node ended."""

    OK = "ok"
    CACHED = "cached"
    """Nothing it depends on has changed, so the outputs of an earlier run were taken."""
    REUSED = "reused"
    """Upstream of `from_node`: the outputs of `RunResult.base_run_id` were taken, unasked whether they still hold."""
    SKIPPED = "skipped"
    """A condition in the pipeline said not to run it."""
    LEFT_OUT = "left out"
    """Outside of what `from_node` and `to_node` select, and not needed."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_RUN = "not run"
    """Never started, because a node failed or the run was interrupted before."""


_BAD = frozenset({Status.FAILED, Status.INTERRUPTED, Status.NOT_RUN})


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """How one node of a run ended.

    Attributes:
        id: Node id, as in the pipeline: "Transform".
        status: How it ended.
        seconds: Wall time from start to end; 0 for a node that was not started.
        outputs: Number of output artifacts.
        log: All that the node printed and logged; None if it was not started.
        error: What went wrong, written for the user; None unless it failed.
    """

    id: str
    status: Status
    seconds: float = 0.0
    outputs: int = 0
    log: Path | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        run_id: Id of the run in the metadata.
        pipeline_name: Name of the pipeline in the metadata.
        metadata_path: The SQLite file that records the run.
        nodes: One result for each node, in the order of the pipeline.
        seconds: Wall time of the whole run.
        base_run_id: The earlier run whose outputs reused nodes stand for, if any.
        interrupted: Whether a signal ended the run.
    """

    run_id: str
    pipeline_name: str
    metadata_path: Path
    nodes: tuple[NodeResult, ...]
    seconds: float
    base_run_id: str | None = None
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether every node that was asked for ended well."""
        return not self.interrupted and not any(node.status in _BAD for node in self.nodes)

    def node(self, node_id: str) -> NodeResult:
        """Returns the result of one node; raises KeyError for an id that is not in the pipeline."""
        return {node.id: node for node in self.nodes}[node_id]


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An output artifact of a node, as the metadata records it.

    Attributes:
        type_name: Name of its TFX type: "Examples".
        uri: Where its files are.
        properties: Properties and custom properties by name.
    """

    type_name: str
    uri: str
    properties: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """`node_ids` are those that will be started, unless a node fails, in the order of the pipeline."""

    run_id: str
    pipeline_name: str
    node_ids: tuple[str, ...]
    base_run_id: str | None


@dataclass(frozen=True, kw_only=True)
class NodeStarted:
    id: str
    log: Path


@dataclass(frozen=True, kw_only=True)
class NodeRunning:
    """Told several times a second for each running node; `progress` is what it last reported, if anything."""

    id: str
    seconds: float
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class NodeEnded:
    result: NodeResult


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    result: RunResult


Event = RunStarted | NodeStarted | NodeRunning | NodeEnded | RunEnded
Listener = Callable[[Event], None]


def new_run_id() -> str:
    """Returns an id that sorts by time and may name a directory: 20251120-191622-123456 (local time)."""
    return datetime.now().strftime("%Y%m%d-%H%M%S-%f")
