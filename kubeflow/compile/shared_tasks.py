"""Which nodes share a task: they run one after the other in one container.

Kubeflow starts a driver and a container for each task, which takes longer than most nodes do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tfx.components.example_validator.component import ExampleValidator
from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver

from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.data_gate.gate_component import DataGate
from fullpass.components.declared_schema import DeclaredSchema, SchemaComparison
from fullpass.components.evaluation.component import Evaluator
from fullpass.components.evaluation.own_checks import Blessing
from fullpass.components.ingest.component import Ingest
from fullpass.components.internals.tfx_internals import base_node
from fullpass.components.parity.component import Parity
from fullpass.components.push.component import Pusher
from fullpass.components.report.component import Report
from fullpass.components.serving_check.component import ServingCheck
from fullpass.components.statistics.component import StatisticsGen
from fullpass.kubeflow.compile.task import task_name
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig

_MAY_SHARE: tuple[tuple[type, ...], ...] = (
    (Ingest, DeclaredSchema),
    (StatisticsGen, SchemaComparison, ExampleValidator, SpanComparison),
    (DataGate, Trainer),
    (Parity, Evaluator, ServingCheck, Blessing, Pusher, Report),
)
"""Nodes that may share a task; the others have one of their own.

A shared task is run again as a whole, so a row has nodes of which one rarely changes alone. Kubeflow publishes nothing
of a task that failed: DataGate, which fails on purpose, is apart from SpanComparison, whose page says why. Transform
needs Ingest and Schema only, and runs beside the statistics."""
_ALONE = -1


@dataclass(eq=False)
class _Task:
    """A task so far: its nodes, the other tasks that it waits for, and what its nodes have in common."""

    common: tuple[int, NodeConfig]
    nodes: list[str] = field(default_factory=list)
    waits: set["_Task"] = field(default_factory=set)

    def before(self) -> set["_Task"]:
        """Returns this task and all tasks before it."""
        return {self}.union(*(task.before() for task in self.waits))


def shared_tasks(nodes: Sequence[base_node.BaseNode], environment: EnvironmentConfig) -> list[tuple[str, ...]]:
    """Returns the ids of the nodes of each task, in the order in which they run; resolvers have no task.

    Nodes share a task if a row of `_MAY_SHARE` has both, their settings are equal, and no task would wait for itself: a
    node that waits for a task that waits for the shared one opens another.

    Args:
        nodes: In the order of the DAG.
    """
    tasks: list[_Task] = []
    made_by: dict[str, set[_Task]] = {}
    for node in nodes:
        waits = set[_Task]().union(*(made_by.get(other.id, ()) for other in node.upstream_nodes))
        if isinstance(node, Resolver):
            made_by[node.id] = waits
            continue
        row = next((number for number, row in enumerate(_MAY_SHARE) if isinstance(node, row)), _ALONE)
        common = row, environment.node(node.id)
        shares = row != _ALONE and environment.tasks == "shared"
        open_ = [task for task in tasks if shares and task.common == common and not _is_within(task, waits)]
        if not open_:
            tasks.append(_Task(common))
        task = (open_ or tasks)[-1]
        task.nodes.append(node.id)
        task.waits |= waits - {task}
        made_by[node.id] = {task}
    return [tuple(task.nodes) for task in tasks]


def _is_within(task: _Task, waits: set[_Task]) -> bool:
    """Returns whether a task is before one of the others that a node waits for."""
    return any(task in other.before() for other in waits - {task})


def name_of(nodes: Sequence[str]) -> str:
    """Returns the name of the task of nodes.

    Example:
        >>> name_of(["Transform"]), name_of(["DataGate", "Trainer"]), name_of(["Parity", "Evaluator", "Report"])
        ('transform', 'data-gate-and-trainer', 'parity-to-report')
    """
    first, last = task_name(nodes[0]), task_name(nodes[-1])
    if len(nodes) == 1:
        return first
    return f"{first}-{'and' if len(nodes) == 2 else 'to'}-{last}"
