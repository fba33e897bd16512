"""The events that a local run sends to its listener, and its result.

A process that started the run reads the events as lines of text between the lines for people.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import get_args

from fullpass.base.json_text import parse_fields, to_json_text
from fullpass.base.progress import Losses, Progress


class Status(StrEnum):
    """The outcome of a node."""

    OK = "ok"
    CACHED = "cached"
    """Its inputs and parameters are unchanged, so the outputs of an earlier run are used."""
    REUSED = "reused"
    """Upstream of `from_node`: the outputs of `RunResult.base_run_id` are used without checking the cache."""
    SKIPPED = "skipped"
    """A condition in the pipeline was false."""
    LEFT_OUT = "left out"
    """Not selected by `from_node` and `to_node`, and not needed by the nodes that are."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_RUN = "not run"
    """Never started, because a node failed or the run was interrupted before."""


_UNSUCCESSFUL = frozenset({Status.FAILED, Status.INTERRUPTED, Status.NOT_RUN})


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """The result of one node of a run.

    Attributes:
        seconds: Wall time from start to end; 0 for a node that was not started.
        cpu_seconds: Processor time of its process and the children it waited for.
        peak_mib: Peak resident memory, in MiB, of the largest of these processes.
        log: The file with the complete output and log of the node; None if it was not started.
        error: The error message for the user; None unless it failed.
        after: The nodes that it waits for.
    """

    id: str
    status: Status
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0
    outputs: int = 0
    log: Path | None = None
    error: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run.

    Attributes:
        base_run_id: The earlier run whose outputs are reused, if any.
        recorded_as: The earlier run in whose records the outputs are found, because nothing has changed since.
    """

    run_id: str
    pipeline_name: str
    metadata_path: Path
    nodes: tuple[NodeResult, ...]
    seconds: float
    base_run_id: str | None = None
    recorded_as: str | None = None
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether all selected nodes succeeded."""
        return not self.interrupted and not any(node.status in _UNSUCCESSFUL for node in self.nodes)

    def node(self, node_id: str) -> NodeResult:
        """Returns the result of one node; raises KeyError for an id that is not in the pipeline."""
        return {node.id: node for node in self.nodes}[node_id]


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """A run starts.

    Attributes:
        node_ids: The nodes to start, unless one fails, in the order of the pipeline.
    """

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
    """A node is running; sent several times a second.

    Attributes:
        losses: Of the models that it trains, so far.
    """

    id: str
    seconds: float
    progress: Progress | None
    losses: Losses = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NodeEnded:
    result: NodeResult


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    result: RunResult


Event = RunStarted | NodeStarted | NodeRunning | NodeEnded | RunEnded
_MARK = "\x1e"
"""Begins the line of an event, as in JSON text sequences (RFC 7464). `printing` lets it into no other line."""
_KINDS = {kind.__name__: kind for kind in get_args(Event)}
Listener = Callable[[Event], None]


def new_run_id() -> str:
    """Returns an id that sorts by time and may name a folder: 20251120-191622-123456 (local time)."""
    return datetime.now().strftime("%Y%m%d-%H%M%S-%f")


def to_line(event: Event) -> str:
    """Returns an event as a line of ASCII that ends with a newline."""
    return f"{_MARK}{to_json_text([type(event).__name__, asdict(event)], default=str)}\n"


def from_line(line: str) -> Event | None:
    """Returns the event of a line; None for a line for people."""
    if not line.startswith(_MARK):
        return None
    kind, fields = json.loads(line[len(_MARK) :])
    event: Event = parse_fields(_KINDS[kind], fields)
    return event
