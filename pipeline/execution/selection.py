"""Which nodes of a compiled pipeline a run starts, and whose earlier outputs it takes instead."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tfx.orchestration import node_proto_view
from tfx.orchestration.portable import partial_run_utils
from tfx.proto.orchestration import pipeline_pb2

from pipeline.execution import metadata_store
from pipeline.execution.launch import IMPORTER_TYPE, RESOLVER_TYPE
from preprocessing.errors import UserError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a run does with each node of its pipeline.

    Attributes:
        start: Ids of the nodes to start, in the order of the pipeline.
        reuse: Ids of the nodes upstream of them, whose outputs are taken from `base_run_id`.
        base_run_id: The newest run in which all that is needed of `reuse` ended well; None if nothing is.
    """

    start: tuple[str, ...]
    reuse: frozenset[str] = frozenset()
    base_run_id: str | None = None


def select(
    pipeline: pipeline_pb2.Pipeline, *, from_node: str | None, to_node: str | None, metadata_path: Path
) -> Selection:
    """Decides what a run starts, and records what it reuses as if this run had made it.

    Resolvers and importers that serve only started nodes are started too, so that "the last blessed model" is
    looked up anew.

    Args:
        pipeline: The IR with its run id filled in; its nodes are marked.
        from_node: Start here and downstream of here; None for the beginning.
        to_node: Start nothing beyond this node; None for the end.
        metadata_path: The SQLite file of the metadata.

    Raises:
        UserError: An id is not in the pipeline, `from_node` does not lead to `to_node`, or no earlier run has
            the outputs that are needed.
    """
    order = tuple(node.pipeline_node.node_info.id for node in pipeline.nodes)
    if from_node is None and to_node is None:
        return Selection(start=order)
    _check_known("from", from_node, order)
    _check_known("to", to_node, order)
    start_at = _entries(pipeline, from_node=from_node, to_node=to_node)
    settings = pipeline_pb2.SnapshotSettings()
    settings.latest_pipeline_run_strategy.SetInParent()
    partial_run_utils.mark_pipeline(
        pipeline,
        from_nodes=start_at,
        to_nodes=[to_node] if to_node else None,
        skip_snapshot_nodes=_lookups(pipeline),
        snapshot_settings=settings,
    )
    return _take_over(pipeline, order, metadata_path)


def _check_known(option: str, node_id: str | None, known: Collection[str]) -> None:
    if node_id is not None and node_id not in known:
        raise UserError(
            f'--{option}: there is no node "{node_id}".{did_you_mean(node_id, known)}\n'
            f"The nodes are: {', '.join(known)}."
        )


def _entries(pipeline: pipeline_pb2.Pipeline, *, from_node: str | None, to_node: str | None) -> list[str] | None:
    """Returns `from_node` and the lookups that serve nothing but what it selects."""
    if from_node is None:
        return None
    nodes = partial_run_utils.make_ordered_node_map(node_proto_view.get_view_for_all_in(pipeline))
    chosen = partial_run_utils.compute_nodes_to_run(nodes, [from_node], [to_node] if to_node else nodes, [])
    if not chosen:
        raise UserError(f'--from "{from_node}" is not upstream of --to "{to_node}".')
    lookups = (nodes[node_id] for node_id in _lookups(pipeline))
    serving = [n for n in lookups if n.downstream_nodes and chosen.issuperset(n.downstream_nodes)]
    return [from_node, *(node.node_info.id for node in serving if not node.upstream_nodes)]


def _lookups(pipeline: pipeline_pb2.Pipeline) -> list[str]:
    """Returns the nodes that find something rather than make it: they are cheap, and may find nothing."""
    nodes = (node.pipeline_node for node in pipeline.nodes)
    kinds = (RESOLVER_TYPE, IMPORTER_TYPE)
    return [node.node_info.id for node in nodes if node.node_info.type.name in kinds]


def _take_over(pipeline: pipeline_pb2.Pipeline, order: tuple[str, ...], metadata_path: Path) -> Selection:
    """Reads the marks of a partial run and takes over, from the newest run that has them, the outputs needed."""
    nodes = {node.pipeline_node.node_info.id: node.pipeline_node for node in pipeline.nodes}
    start = tuple(node_id for node_id in order if nodes[node_id].execution_options.HasField("run"))
    required = [node_id for node_id in order if _is_required(nodes[node_id])]
    looked_up = [i for i in _lookups(pipeline) if i not in start and set(start) & set(nodes[i].downstream_nodes)]
    name = pipeline.pipeline_info.id
    base_run_id = metadata_store.newest_run_with(metadata_path, name, required or looked_up)
    if required and base_run_id is None:
        raise UserError(
            f"--from: no earlier run of {name} has the outputs of {', '.join(required)} to start from.\n"
            "Run the whole pipeline once, or start further upstream."
        )
    if base_run_id is None or not required + looked_up:
        return Selection(start=start)
    with metadata_store.LockedMetadata(metadata_path) as handle:
        partial_run_utils.snapshot(handle, pipeline, base_run_id=base_run_id)
    return Selection(start=start, reuse=frozenset(required + looked_up), base_run_id=base_run_id)


def _is_required(node: pipeline_pb2.PipelineNode) -> bool:
    options = node.execution_options
    required = pipeline_pb2.NodeExecutionOptions.Skip.REQUIRED
    return options.HasField("skip") and options.skip.reuse_artifacts_mode == required
