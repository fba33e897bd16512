"""How a launch finds the inputs of a node, against TFX's own way and with more and more runs in the metadata."""

from pathlib import Path

import pytest
from ml_metadata.metadata_store.metadata_store import MetadataStore
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_artifact_strategy import LatestArtifactStrategy
from tfx.types.channel import Channel
from tfx.types.standard_artifacts import Examples, Schema

from fullpass.components.internals.tfx_internals import channel_resolver, pipeline_pb2
from fullpass.pipeline.running.execution import input_channels
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata
from tests.pipeline.toys import Count, Double, launched_here, pipeline_of

pytestmark = pytest.mark.integration


def run(folder: Path, name: str = "toy") -> None:
    """Runs two nodes and a resolver that looks at the artifacts of all runs."""
    count = Count(to=2)
    newest = Resolver(strategy_class=LatestArtifactStrategy, data=Channel(type=Examples)).with_id("Newest")
    nodes = [count, Double(source=count.outputs["data"]), newest]
    launched_here(pipeline_of(folder, nodes, cache=False, name=name))


def test_artifacts_of_any_node_are_those_that_tfx_finds(tmp_path):
    for name in ("toy", "other", "toy"):
        run(tmp_path, name)

    def found(resolve, name, kind):
        channel = pipeline_pb2.InputSpec.Channel()
        query = channel.context_queries.add()
        query.type.name, query.name.field_value.string_value = "pipeline", name
        channel.artifact_query.type.name = kind
        with LockedMetadata(tmp_path / "metadata" / "metadata.db") as handle:
            return sorted((one.id, one.uri) for one in resolve(handle, channel))

    sizes = {}
    for name in ("toy", "other", "absent"):
        for kind in (Examples, Schema):
            ours = found(channel_resolver.resolve_single_channel, name, kind.TYPE_NAME)
            assert ours == found(input_channels._resolve_by_executions, name, kind.TYPE_NAME)
            sizes[name, kind.TYPE_NAME] = len(ours)
    assert [sizes[name, "Examples"] for name in ("toy", "other", "absent")] == [4, 2, 0]


def test_a_launch_reads_no_more_executions_after_more_runs(tmp_path, monkeypatch):
    read = MetadataStore.get_executions_by_context
    sizes = []

    def counted(store, *asked, **options):
        found = read(store, *asked, **options)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(MetadataStore, "get_executions_by_context", counted)
    runs = []
    for _ in range(4):
        run(tmp_path)
        runs.append(sizes.copy())
        sizes.clear()
    assert runs[1] == runs[2] == runs[3] and max(runs[3]) <= 3, "a run has three executions, four runs have twelve"
