"""Runs a TFX pipeline on this machine: independent nodes run in parallel, each in its own process."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tfx.orchestration.pipeline import Pipeline

from fullpass.base.errors import UsageError, UserError
from fullpass.base.processes import StopSignals, stop_signals, usable_cores
from fullpass.components.container_node import check_engine
from fullpass.components.internals.tfx_internals import (
    compiler,
    constants,
    local_deployment_config_pb2,
    node_proto_view,
    partial_run_utils,
    pipeline_pb2,
    runner_utils,
    runtime_parameter_utils,
)
from fullpass.pipeline.record import events
from fullpass.pipeline.record.events import Listener, NodeResult, RunResult, Status
from fullpass.pipeline.running.execution import metadata_store, node_process
from fullpass.pipeline.running.execution.launch import IMPORTER_TYPE, launch
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata, close_abandoned, close_executions
from fullpass.pipeline.running.execution.node_process import NodeProcess
from fullpass.pipeline.running.execution.records import RESOLVER_TYPE
from fullpass.pipeline.running.request import DEFAULTS, RunRequest
from fullpass.preprocessing.internals.tf_internals import has_computed


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The nodes that a run starts and reuses.

    Attributes:
        start: Ids of the nodes to start, in the order of the pipeline.
        reuse: Ids of the upstream nodes whose outputs of `base_run_id` are reused.
        base_run_id: The newest run in which all required nodes of `reuse` succeeded; None if there are none.
    """

    start: tuple[str, ...]
    reuse: frozenset[str] = frozenset()
    base_run_id: str | None = None


def select_nodes(pipeline: pipeline_pb2.Pipeline, request: RunRequest, metadata_path: Path) -> Selection:
    """Selects the nodes that a run starts, and records the outputs that it reuses as its own.

    Resolvers and importers that serve only started nodes are started too, so the last blessed model is resolved again.

    Args:
        pipeline: The compiled pipeline with its run id, whose nodes are marked.

    Raises:
        UserError: A node is not in the pipeline, the first does not lead to the last, or no earlier run has the
            required outputs.
    """
    order = tuple(node.pipeline_node.node_info.id for node in pipeline.nodes)
    if request.whole:
        return Selection(start=order)
    request.check_nodes(order)
    from_node, to_node = request.from_node, request.to_node
    start_at = _start_nodes(pipeline, from_node=from_node, to_node=to_node)
    settings = pipeline_pb2.SnapshotSettings()
    settings.latest_pipeline_run_strategy.SetInParent()
    partial_run_utils.mark_pipeline(
        pipeline,
        from_nodes=start_at,
        to_nodes=[to_node] if to_node else None,
        skip_snapshot_nodes=_lookup_nodes(pipeline),
        snapshot_settings=settings,
    )
    return _reuse_outputs(pipeline, order, metadata_path, begins_later=from_node is not None)


def _start_nodes(pipeline: pipeline_pb2.Pipeline, *, from_node: str | None, to_node: str | None) -> list[str] | None:
    """Returns `from_node` and the lookup nodes that serve only the nodes it selects."""
    if from_node is None:
        return None
    nodes = partial_run_utils.make_ordered_node_map(node_proto_view.get_view_for_all_in(pipeline))
    chosen = partial_run_utils.compute_nodes_to_run(nodes, [from_node], [to_node] if to_node else nodes, [])
    if not chosen:
        raise UsageError(f'--from "{from_node}" is not upstream of --to "{to_node}".')
    lookups = (nodes[node_id] for node_id in _lookup_nodes(pipeline))
    serving = [n for n in lookups if n.downstream_nodes and chosen.issuperset(n.downstream_nodes)]
    return [from_node, *(node.node_info.id for node in serving if not node.upstream_nodes)]


def _lookup_nodes(pipeline: pipeline_pb2.Pipeline) -> list[str]:
    """Returns the ids of resolvers and importers, which are cheap and may find nothing."""
    nodes = (node.pipeline_node for node in pipeline.nodes)
    kinds = (RESOLVER_TYPE, IMPORTER_TYPE)
    return [node.node_info.id for node in nodes if node.node_info.type.name in kinds]


def _reuse_outputs(
    pipeline: pipeline_pb2.Pipeline, order: tuple[str, ...], metadata_path: Path, *, begins_later: bool
) -> Selection:
    """Reads the marks of a partial run, and reuses the outputs of the newest run that has all required outputs.

    A run with `--from` also takes all other outputs of that run, so consecutive runs of one node each add up.
    """
    nodes = {node.pipeline_node.node_info.id: node.pipeline_node for node in pipeline.nodes}
    start = tuple(node_id for node_id in order if nodes[node_id].execution_options.HasField("run"))
    required = [node_id for node_id in order if _is_required(nodes[node_id])]
    looked_up = [i for i in _lookup_nodes(pipeline) if i not in start and set(start) & set(nodes[i].downstream_nodes)]
    name = pipeline.pipeline_info.id
    own = pipeline.runtime_spec.pipeline_run_id.field_value.string_value
    needed = required or looked_up
    sought = bool(needed) or begins_later
    base_run_id = metadata_store.newest_run_with(metadata_path, name, needed, but=own) if sought else None
    if required and base_run_id is None:
        raise UserError(
            f"--from: no earlier run of {name} has the outputs of {', '.join(required)} to start from.\n"
            "Run the whole pipeline once, or start further upstream."
        )
    if base_run_id is None:
        return Selection(start=start)
    with metadata_store.LockedMetadata(metadata_path) as handle:
        partial_run_utils.snapshot(handle, pipeline, base_run_id=base_run_id)
    return Selection(start=start, reuse=frozenset(required + looked_up), base_run_id=base_run_id)


def _is_required(node: pipeline_pb2.PipelineNode) -> bool:
    options = node.execution_options
    required = pipeline_pb2.NodeExecutionOptions.Skip.REQUIRED
    return options.HasField("skip") and options.skip.reuse_artifacts_mode == required


_TICK_SECONDS = 0.25
"""Seconds between the events of running nodes: the display moves smoothly."""
_NO_STEP = object()
_GPU_NODE_TYPES = frozenset(
    {
        "tfx.components.trainer.component.Trainer",
        "fullpass.components.training.component.RunFnTrainer",
        "fullpass.components.tuning.component.Tuner",
    }
)
_DONE = frozenset({Status.OK, Status.CACHED, Status.SKIPPED})


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """A compiled pipeline (IR) with its run id and its deployment."""

    ir: pipeline_pb2.Pipeline
    deployment: local_deployment_config_pb2.LocalDeploymentConfig
    run_id: str
    metadata_path: Path

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self.ir.pipeline_info.id

    @property
    def nodes(self) -> dict[str, pipeline_pb2.PipelineNode]:
        """The nodes by id, in the order of the pipeline."""
        return {node.pipeline_node.node_info.id: node.pipeline_node for node in self.ir.nodes}

    @property
    def root(self) -> str:
        """The pipeline root."""
        return self.ir.runtime_spec.pipeline_root.field_value.string_value


def run(
    pipeline: Pipeline,
    request: RunRequest = DEFAULTS,
    *,
    log_dir: Path,
    run_id: str | None = None,
    listener: Listener = lambda event: None,
    meanwhile: Iterable[object] = (),
) -> RunResult:
    """Runs `pipeline` and sends its events to `listener`.

    A node starts when all its upstream nodes have succeeded. After a failure no node is started, and running nodes may
    finish; with the pipeline's cache enabled, the next run continues from there. SIGINT and SIGTERM interrupt the
    nodes. A second signal, or 10 s without effect, kills them.

    The caller must hold the lock on the pipeline root (`locks.run_lock`) before it builds the pipeline, since a
    pipeline depends on earlier runs. The open executions of killed runs are closed first.

    Args:
        pipeline: A pipeline whose metadata is a SQLite file.
        log_dir: The folder for `<node id>.log` of every started node; created if missing.
        run_id: Id of the run in the metadata; a new one by default.
        listener: Called in this thread with every event. It must not start threads: nodes are forked.
        meanwhile: Other work to do step by step while nodes run, such as imports that later nodes need.

    Raises:
        UserError: There is no such node, or none of these runs containers and a node needs one. The failure of a node
            is not raised; the result contains it.
        RuntimeError: TensorFlow has computed something in this process, so a forked node would hang.
    """
    started = time.monotonic()
    _require_no_tensorflow_runtime()
    compiled = _compile(pipeline, run_id or events.new_run_id(), fresh=request.fresh)
    log_dir.mkdir(parents=True, exist_ok=True)
    close_abandoned(compiled.metadata_path, compiled.root, compiled.name)
    selection = select_nodes(compiled.ir, request, compiled.metadata_path)
    for node_id in selection.start:
        check_engine(node_id, runner_utils.extract_executor_spec(compiled.deployment, node_id))
    listener(
        events.RunStarted(
            run_id=compiled.run_id,
            pipeline_name=compiled.name,
            node_ids=selection.start,
            base_run_id=selection.base_run_id,
        )
    )
    with tempfile.TemporaryDirectory() as scratch, stop_signals() as received:
        parallel = request.parallel or nodes_at_once(usable_cores())
        nodes = _NodeScheduler(compiled, list(selection.start), parallel, log_dir, Path(scratch), listener)
        nodes.run(received, iter(meanwhile))
    result = RunResult(
        run_id=compiled.run_id,
        pipeline_name=compiled.name,
        metadata_path=compiled.metadata_path,
        nodes=tuple(
            replace(_result_of(node_id, selection, nodes.results), after=tuple(node.upstream_nodes))
            for node_id, node in compiled.nodes.items()
        ),
        seconds=time.monotonic() - started,
        base_run_id=selection.base_run_id,
        interrupted=received.is_set(),
    )
    listener(events.RunEnded(result=result))
    return result


def nodes_at_once(cores: int) -> int:
    """Returns the number of nodes that run at the same time: one more than cores, but one on a single core.

    After the Trainer three nodes are ready. On two cores, the third would wait for the first two and then have a core
    idle beside it.
    """
    return cores + 1 if cores > 1 else 1


def _require_no_tensorflow_runtime() -> None:
    """Refuses to fork after the first eager operation, which starts threads that do not survive a fork."""
    if has_computed():
        raise RuntimeError(
            "TensorFlow has already computed something in this process, and its nodes, forked from it, would hang. "
            "Run the pipeline before any TensorFlow operation, or in a process of its own (`fullpass run`)."
        )


@dataclass
class _NodeScheduler:
    """Starts the nodes of a run in order and collects their results."""

    compiled: _Compiled
    waiting: list[str]
    parallel: int
    log_dir: Path
    scratch: Path
    listener: Listener
    results: dict[str, NodeResult] = field(default_factory=dict)
    running: list[NodeProcess] = field(default_factory=list)

    def run(self, received: StopSignals, meanwhile: Iterator[object]) -> None:
        """Runs all nodes until they end or a stop signal is received.

        No node is left running, even if the listener raises because its terminal or pipe is gone.
        """
        try:
            self._schedule(received, meanwhile)
        finally:
            for process in self.running:
                node_process.kill(process)
                node_process.collect(process)
                self._close_executions(process.id)

    def _schedule(self, received: StopSignals, meanwhile: Iterator[object]) -> None:
        killed_after = float("inf")
        while self._start_ready(received) or self.running:
            if received.is_set() and killed_after == float("inf"):
                killed_after = time.monotonic() + node_process.GRACE_SECONDS
                for process in self.running:
                    node_process.interrupt(process)
            if received.count > 1 or time.monotonic() > killed_after:
                for process in self.running:
                    node_process.kill(process)
            seconds = _TICK_SECONDS if next(meanwhile, _NO_STEP) is _NO_STEP else 0.0
            for process in node_process.wait_any(self.running, seconds):
                self._collect_ended(process, interrupted=received.is_set())
            for process in self.running:
                progress, losses = process.read_progress(), process.read_losses()
                event = events.NodeRunning(id=process.id, seconds=process.seconds, progress=progress, losses=losses)
                self.listener(event)

    def _start_ready(self, received: StopSignals) -> bool:
        """Starts the nodes that are ready; returns whether any node is running."""
        bad = any(result.status not in _DONE for result in self.results.values())
        nodes = self.compiled.nodes
        pending = {*self.waiting, *(process.id for process in self.running)}
        ready = [node for node in self.waiting if pending.isdisjoint(nodes[node].upstream_nodes)]
        for node_id in () if bad or received.is_set() else ready[: self.parallel - len(self.running)]:
            self._start(node_id)
        return bool(self.running)

    def _start(self, node_id: str) -> None:
        compiled = self.compiled
        node = compiled.nodes[node_id]
        work = partial(launch, node, compiled.ir, compiled.deployment, LockedMetadata(compiled.metadata_path))
        log = self.log_dir / f"{node_id}.log"
        gpus = node.node_info.type.name in _GPU_NODE_TYPES
        self.waiting.remove(node_id)
        self.running.append(node_process.start(node_id, work, log=log, scratch=self.scratch, gpus=gpus))
        self.listener(events.NodeStarted(id=node_id, log=log))

    def _collect_ended(self, process: NodeProcess, *, interrupted: bool) -> None:
        self.running.remove(process)
        result = _with_interruptions(node_process.collect(process), interrupted=interrupted)
        if result.status not in _DONE:
            self._close_executions(process.id)
        self.results[process.id] = result
        self.listener(events.NodeEnded(result=result))

    def _close_executions(self, node_id: str) -> None:
        compiled = self.compiled
        close_executions(compiled.metadata_path, compiled.root, compiled.name, run_id=compiled.run_id, node_id=node_id)


def _with_interruptions(result: NodeResult, *, interrupted: bool) -> NodeResult:
    """Returns the result with the status that distinguishes a failed node from an interrupted one."""
    if result.status in _DONE:
        return result
    if interrupted:
        return replace(result, status=Status.INTERRUPTED, error=None)
    if result.status == Status.INTERRUPTED:
        return replace(result, status=Status.FAILED, error="A signal from outside the run stopped it.")
    return result


def _result_of(node_id: str, selection: Selection, results: dict[str, NodeResult]) -> NodeResult:
    if node_id in results:
        return results[node_id]
    if node_id in selection.start:
        return NodeResult(id=node_id, status=Status.NOT_RUN)
    reused = node_id in selection.reuse
    return NodeResult(id=node_id, status=Status.REUSED if reused else Status.LEFT_OUT)


def _compile(pipeline: Pipeline, run_id: str, *, fresh: bool) -> _Compiled:
    ir = compiler.Compiler().compile(pipeline)
    runtime_parameter_utils.substitute_runtime_parameter(ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id})
    if fresh:
        for node in ir.nodes:
            node.pipeline_node.execution_options.caching_options.enable_cache = False
    deployment = runner_utils.extract_local_deployment_config(ir)
    connection = deployment.metadata_connection_config.database_connection_config
    if not connection.HasField("sqlite"):
        raise UserError(
            f"{ir.pipeline_info.id}: a local run keeps its metadata in a SQLite file, and the pipeline names "
            f"{connection.WhichOneof('config') or 'none'}. Give it a sqlite_metadata_connection_config."
        )
    return _Compiled(ir=ir, deployment=deployment, run_id=run_id, metadata_path=Path(connection.sqlite.filename_uri))
