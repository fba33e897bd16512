"""Small pipelines for runs, and what is looked at in the results."""

from pathlib import Path

from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.types.channel import Channel
from tfx.types.standard_artifacts import Model, ModelBlessing

from fullpass.pipeline.record.events import RunResult
from fullpass.pipeline.running.execution import records
from tests.pipeline import toys


def last_blessed() -> Resolver:
    channels = {"model": Channel(type=Model), "model_blessing": Channel(type=ModelBlessing)}
    return Resolver(strategy_class=LatestBlessedModelStrategy, **channels).with_id("LastBlessed")


def failing_once(folder: Path) -> list:
    """Returns nodes of which the second fails until the file `flag` is in the folder."""
    count = toys.Count(to=5)
    once = toys.FailOnce(source=count.outputs["data"], flag=str(folder / "flag"))
    return [count, once, toys.Double(source=once.outputs["data"])]


def statuses(result: RunResult) -> dict[str, str]:
    return {node.id: str(node.status) for node in result.nodes}


def rows_of(result: RunResult, node_id: str) -> list[int]:
    [artifact] = records.outputs_of_node(result, node_id)["data"]
    return toys.rows(artifact.uri)


def diamond() -> list:
    """Count -> (Double, Square on Beam) -> Add: i*2 + i*i for i in 0..4."""
    count = toys.Count(to=5)
    double = toys.Double(source=count.outputs["data"])
    square = toys.Square(source=count.outputs["data"])
    add = toys.Add(left=double.outputs["data"], right=square.outputs["data"])
    return [count, double, square, add]
