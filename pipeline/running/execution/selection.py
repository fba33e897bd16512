"""Selects the nodes that a run starts, and those whose earlier outputs it reuses."""

from dataclasses import dataclass
from pathlib import Path

from fullpass.base.errors import UsageError, UserError
from fullpass.components.internals.tfx_internals import node_proto_view, partial_run_utils, pipeline_pb2
from fullpass.pipeline.running.execution import metadata_store
from fullpass.pipeline.running.execution.launch import IMPORTER_TYPE
from fullpass.pipeline.running.execution.records import RESOLVER_TYPE
from fullpass.pipeline.running.request import RunRequest


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


def select(pipeline: pipeline_pb2.Pipeline, request: RunRequest, metadata_path: Path) -> Selection:
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
