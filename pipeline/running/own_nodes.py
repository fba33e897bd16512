"""Nodes of the user in the pipeline: those that the function of `nodes:` returns, and the nodes that wait for them."""

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

from tfx.orchestration.pipeline import Pipeline

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.user_modules import import_function, own_code
from fullpass.components.container_node import container_of, run_by_fullpass
from fullpass.components.evaluation.own_checks import BLESSINGS, EVALUATED, Blessing
from fullpass.components.internals.tfx_internals import base_component, base_node
from fullpass.preprocessing.internals.tfx_bsl_internals import let_bulk_inferrer_take_texts

Nodes = dict[str, base_node.BaseNode]
_ID = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


def with_own_nodes(function: str, nodes: Sequence[base_node.BaseNode], code: str) -> list[base_node.BaseNode]:
    """Returns the nodes of a pipeline with those of the user.

    Args:
        function: Returns the user's nodes, each with the ids of the nodes that wait for it; called with all `nodes` by
            id.
        code: Digest of the user's code, which changes the cache key of the user's nodes when it changes.

    Raises:
        UserError: The function fails, or its nodes do not fit into the pipeline.
    """
    by_id: Nodes = {node.id: node for node in nodes}
    add = import_function(function)
    with own_code(function):
        returned = add(MappingProxyType(_Existing(by_id)))
    own = _checked(function, returned, by_id)
    for node, waiting in own.items():
        if isinstance(node, base_component.BaseComponent):
            _prepare(node, code)
        for name in waiting:
            by_id[name].add_upstream_node(node)
    together = [*nodes, *own]
    _check_order(function, together)
    return together + _blessing_of(by_id, [node for node, waiting in own.items() if "Pusher" in waiting])


class _Existing(dict[str, base_node.BaseNode]):
    """The nodes by id, which tell what there is if one is asked for that is not."""

    def __missing__(self, name: object) -> base_node.BaseNode:
        raise KeyError(_absent(name, self))


def _absent(name: object, by_id: Nodes) -> str:
    return f"there is no node {_short(name)}.{did_you_mean(str(name), by_id)} Nodes: {', '.join(by_id)}."


def _short(value: object) -> str:
    return f"{value!r:.80}"


def _prepare(node: base_component.BaseComponent, code: str) -> None:
    """Lets a node run by any runner, and its cache know its code."""
    if (container := container_of(node)) is not None:
        run_by_fullpass(node, *container)
        return
    path = node.executor_spec.class_path
    let_bulk_inferrer_take_texts(path)
    if not path.startswith("tfx."):
        node.executor_spec.add_extra_flags([f"--code={code}"])  # TFX's cache compares executors, not their code


def _checked(function: str, returned: Any, by_id: Nodes) -> Mapping[base_node.BaseNode, Sequence[str]]:
    """Returns what a function returned, if each is a new node, with nodes that exist."""
    example = '{FairnessCheck(...): ["Pusher"], BulkInferrer(...): []}'
    if not isinstance(returned, Mapping):
        raise UserError(
            f"{function} returned {_short(returned)}. Return each node with those that wait for it: {example}."
        )
    # On Kubeflow, the names of tasks have no capitals.
    taken = {name.lower() for name in (*by_id, "Blessing")}
    for node, waiting in returned.items():
        if not isinstance(node, base_node.BaseNode) or isinstance(node, Pipeline):
            raise UserError(f"{function} returned {_short(node)}, which is no TFX node by itself. Accepted: {example}.")
        if not _ID.fullmatch(node.id):  # it names folders and files
            raise UserError(
                f"{function} returned a node {node.id!r}. Its name may have letters, digits, and in between _ . and -: "
                'node.with_id("NAME").'
            )
        if node.id.lower() in taken:
            raise UserError(f'{function} returned a node {node.id}; that name is taken. Name it: node.with_id("NAME").')
        taken.add(node.id.lower())
        if isinstance(waiting, str) or not isinstance(waiting, Sequence):
            raise UserError(
                f"{function}: the nodes that wait for {node.id} are {_short(waiting)}. Give a list: {example}."
            )
        for name in waiting:
            if not isinstance(name, str) or name not in by_id:
                raise UserError(f"{function}: {_absent(name, by_id)} Those that wait for {node.id} are names of these.")
    return returned


def _check_order(function: str, nodes: Sequence[base_node.BaseNode]) -> None:
    """Checks that every input comes from a node of the pipeline, and that no node waits for itself."""
    ids = {node.id for node in nodes}
    before = {node.id: _nodes_before(node) for node in nodes}
    for node, producers in before.items():
        if absent := sorted(producers - ids):
            raise UserError(f"{function}: {node} reads {', '.join(absent)}, which is not returned. Return it, too.")
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise UserError(f"{function}: no node of these can be the first: {circle}. Let fewer nodes wait.") from error


def _nodes_before(node: base_node.BaseNode) -> set[str]:
    """Returns the ids of the nodes whose outputs a node reads, or that it waits for."""
    read = (channel.get_data_dependent_node_ids() for channel in node.inputs.values())
    return {other.id for other in node.upstream_nodes}.union(*read)


def _blessing_of(by_id: Nodes, gates: Sequence[base_node.BaseNode]) -> list[base_component.BaseComponent]:
    """Returns the node that unites the blessings of the nodes that the Pusher waits for, which it then obeys."""
    blessings = {
        node.id if len(found) == 1 else f"{node.id}_{name}": channel
        for node in gates
        if (found := {name: channel for name, channel in node.outputs.items() if channel.type in BLESSINGS})
        for name, channel in found.items()
    }
    if not blessings:
        return []
    united = Blessing(by_id["Evaluator"], blessings)
    for reader in ("Pusher", "Report"):
        for name in EVALUATED:
            by_id[reader].spec.inputs[name] = united.outputs[name]
    return [united]
