"""Executions of all the contexts of a query: pipeline, run and node, as TFX's launcher asks."""

from types import SimpleNamespace

import pytest
from ml_metadata import proto

from fullpass.components.internals.tfx_internals import execution_lib
from fullpass.pipeline.running.execution.records import locked_store

pytestmark = pytest.mark.integration
RUNS, NODES = ("monday", "tuesday"), ("Ingest", "Trainer")


@pytest.fixture
def recorded(tmp_path):
    """A store with two pipelines of two nodes, run twice; the contexts by name, and (pipeline, run, node) -> id."""
    with locked_store(tmp_path / "metadata.sqlite", writes=True) as store:
        kind = store.put_context_type(proto.ContextType(name="anything"))
        does = store.put_execution_type(proto.ExecutionType(name="does"))
        contexts, executions = {}, {}

        def context(name):
            if name not in contexts:
                [number] = store.put_contexts([proto.Context(type_id=kind, name=name)])
                contexts[name] = proto.Context(id=number, type_id=kind, name=name)
            return contexts[name]

        for run in RUNS:
            for pipeline in ("taxi", "flights"):
                for node in NODES:
                    of = [context(pipeline), context(f"{pipeline} {run}"), context(f"{pipeline} {node}")]
                    execution = proto.Execution(type_id=does)
                    executions[pipeline, run, node], *_ = store.put_execution(execution, [], of)
        yield store, contexts, executions


def found(store, *contexts):
    handle = SimpleNamespace(store=store)
    return {execution.id for execution in execution_lib.get_executions_associated_with_all_contexts(handle, contexts)}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("node", NODES)
def test_a_node_of_a_run(recorded, run, node):
    store, contexts, executions = recorded
    asked = [contexts["taxi"], contexts[f"taxi {run}"], contexts[f"taxi {node}"]]
    assert found(store, *asked) == {executions["taxi", run, node]}
    assert found(store, *reversed(asked)) == {executions["taxi", run, node]}


def test_all_runs_of_a_node_and_a_context_alone(recorded):
    store, contexts, executions = recorded
    of_node = {executions["taxi", run, "Ingest"] for run in RUNS}
    assert found(store, contexts["taxi"], contexts["taxi Ingest"]) == of_node
    assert found(store, contexts["taxi Ingest"]) == of_node


def test_contexts_of_two_pipelines_share_nothing(recorded):
    store, contexts, _ = recorded
    assert found(store, contexts["taxi"], contexts["flights monday"]) == set()


def test_executions_without_a_query(recorded):
    store, _, executions = recorded
    assert {execution.id for execution in store.get_executions()} == set(executions.values())
