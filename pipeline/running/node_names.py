"""The ids of a pipeline's nodes, known without building it: an unknown one is refused before anything is written."""

from collections.abc import Collection

from fullpass.base.errors import UsageError, did_you_mean
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.config import PipelineConfig


def node_names(config: PipelineConfig) -> tuple[str, ...]:
    """Returns the ids of the nodes of `build_nodes`, in its order."""
    return (
        "Ingest",
        *(["Window"] if has_spans(config.data) else []),
        *("StatisticsGen", "Schema", "SchemaComparison", "ExampleValidator", "SpanComparison", "DataGate"),
        *("LastBlessedModel", "Transform"),
        *(["Tuner"] if config.tuning is not None else []),
        *("Trainer", "Parity", "Evaluator", "ServingCheck", "Pusher", "Report"),
    )


def check_known(option: str, node_id: str | None, known: Collection[str]) -> None:
    """Checks that a node exists, if one is named.

    Args:
        option: the option that names the node, without dashes.
        node_id: the id, or None.
        known: the ids of all nodes.

    Raises:
        UsageError: There is no such node.
    """
    if node_id is not None and node_id not in known:
        raise UsageError(
            f'--{option}: there is no node "{node_id}".{did_you_mean(node_id, known)}\n'
            f"The nodes are: {', '.join(known)}."
        )
