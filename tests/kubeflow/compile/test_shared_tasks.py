"""Which nodes share a task, and how many pods a run makes, counted in the package as Kubeflow's compiler makes them."""

import graphlib
import itertools

import pytest

from fullpass.components.ingest.spans.spans import Window
from fullpass.kubeflow.compile.shared_tasks import shared_tasks
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build_nodes
from fullpass.pipeline.running.tfx_components import RunPaths
from tests.kubeflow.compile.package_lint import lint
from tests.kubeflow.conftest import REPOSITORY

pytestmark = pytest.mark.integration

EQUAL = """\
image: registry.example/taxi:1.4.2
kubeflow: "2.17"
registry: /models/registry
push_to: /models/taxi
defaults: {volumes: [{claim: models, mount: /models}]}
"""
NOTIFIED = {"training: {": "notify: [{command: [tell]}]\ntraining: {"}


def pods(package, *, cached: bool) -> int:
    """Returns the pods of a run: drivers of DAGs and containers, importers, and containers not from the cache."""
    executors, components = package.executors, package.pipeline["components"]

    def of(dag) -> int:
        count = 1
        for task in dag["tasks"].values():
            component = components[task["componentRef"]["name"]]
            if "dag" in component:
                count += of(component["dag"])
            elif "importer" in executors[component["executorLabel"]]:
                count += 1
            else:
                count += 1 if cached and task["cachingOptions"]["enableCache"] else 2
        return count

    return of(package.pipeline["root"]["dag"])


@pytest.mark.parametrize(
    ("environment", "edit", "first", "again"),
    [
        # The root, two of the look-up, the DAG of nodes, the importer; then two for each of five tasks, or a driver.
        (EQUAL, {}, 5 + 2 * 5, 5 + 5),
        # A DAG more for the exit task, two of the recorded outcome, two of the notification.
        (EQUAL, NOTIFIED, 15 + 5, 10 + 5),
        # Fourteen nodes.
        (EQUAL + "tasks: separate\n", {}, 5 + 2 * 14, 5 + 14),
        # A Trainer with a GPU leaves DataGate a task of its own.
        (EQUAL + "nodes: {Trainer: {accelerator: {count: 1}}}\n", {}, 17, 11),
    ],
)
def test_a_run_makes_this_many_pods(compile_taxi, environment, edit, first, again):
    package = compile_taxi(environment, edit).package
    assert (pods(package, cached=False), pods(package, cached=True)) == (first, again)
    assert lint(package, "2.17") == []


@pytest.fixture(scope="module")
def nodes():
    """The nodes of the taxi pipeline, with a tuner."""
    from tfx.orchestration.pipeline import Pipeline

    loaded = load(REPOSITORY / "examples" / "taxi" / "pipeline.yaml")
    tuned = loaded.config.model_validate(
        loaded.config.model_dump() | {"tuning": {"search": {"training.epochs": {"choices": [1, 2]}}}}
    )
    paths = RunPaths(str, Window(None, ()), (), "", "", "", compress=True, push_to="/models")
    found = {}
    for name, config in (("taxi", loaded.config), ("tuned", tuned)):
        built = build_nodes(type(loaded)(**{**vars(loaded), "config": config}), paths)
        found[name] = Pipeline(pipeline_name="taxi", pipeline_root="unused", components=built).components
    return found


def environment(*own: str) -> EnvironmentConfig:
    """Returns an environment in which some nodes have settings of their own, each others."""
    config = EnvironmentConfig(image="a:1", kubeflow="2.17", registry="/r")
    return config.model_copy(update={"nodes": {name: NodeConfig(env={"OWN": name}) for name in own}})


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ((), ["Ingest Schema", "StatisticsGen ExampleValidator SchemaComparison SpanComparison", "DataGate Trainer",
              "Transform", "Evaluator Parity ServingCheck Pusher Report"]),
        (("Pusher",), ["Evaluator Parity ServingCheck", "Pusher", "Report"]),
        (("ExampleValidator",), ["StatisticsGen SchemaComparison", "ExampleValidator", "SpanComparison"]),
        (("Evaluator", "ServingCheck"), ["Evaluator", "ServingCheck", "Parity Pusher Report"]),
        (("SchemaComparison",), ["SchemaComparison", "StatisticsGen ExampleValidator SpanComparison"]),
        (("Trainer",), ["DataGate", "Trainer"]),
        (("Schema",), ["Ingest", "Schema"]),
    ],
)  # fmt: skip
def test_a_node_with_settings_of_its_own_leaves_its_task(nodes, own, expected):
    assert {" ".join(task) for task in shared_tasks(nodes["taxi"], environment(*own))} >= set(expected)


def test_nodes_with_equal_settings_of_their_own_share_a_task(nodes):
    config = environment()
    config = config.model_copy(update={"nodes": dict.fromkeys(("Pusher", "Report"), NodeConfig(env={"A": "b"}))})
    assert ("Pusher", "Report") in shared_tasks(nodes["taxi"], config)


def test_a_tuner_between_the_gate_and_the_trainer_parts_them(nodes):
    tasks = shared_tasks(nodes["tuned"], environment())
    assert {("DataGate",), ("Tuner",), ("Trainer",)} <= set(tasks)


def test_whatever_leaves_no_task_waits_for_itself_and_none_could_be_larger(nodes):
    """Over all pairs of nodes with settings of their own; the order of tasks is checked by Python's own sorter."""
    listed = nodes["tuned"]
    upstream = {node.id: {other.id for other in node.upstream_nodes} for node in listed}
    together = {frozenset(task) for task in shared_tasks(listed, environment())}
    for own in itertools.combinations([node.id for node in listed if node.id != "LastBlessedModel"], 2):
        tasks = shared_tasks(listed, environment(*own))
        assert sorted(itertools.chain(*tasks)) == sorted(set(upstream) - {"LastBlessedModel"})
        runs(tasks, upstream)
        for first, second in itertools.combinations(tasks, 2):
            if set(own) & {*first, *second} or not any({*first, *second} <= row for row in together):
                continue
            merged = [task for task in tasks if task not in (first, second)]
            order = [node.id for node in listed if node.id in {*first, *second}]
            with pytest.raises(graphlib.CycleError):
                runs([*merged, tuple(order)], upstream)


def runs(tasks, upstream) -> None:
    """Raises an error unless the tasks can run in some order, and the nodes of each in theirs."""
    of_node = {node: number for number, task in enumerate(tasks) for node in task}
    graph = {
        number: {of_node[other] for node in task for other in upstream[node] if other in of_node} - {number}
        for number, task in enumerate(tasks)
    }
    done = set[str]()
    for number in graphlib.TopologicalSorter(graph).static_order():
        for node in tasks[number]:
            assert upstream[node] & set(of_node) <= done
            done.add(node)
