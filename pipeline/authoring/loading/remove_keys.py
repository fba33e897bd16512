"""Removes entries from YAML text; every other line, with its comments, stays as it is written."""

import copy
from collections.abc import Collection, Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node

from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml

_Entry = tuple[Keys, Node, Node]
"""The path of an entry, the node with which it begins, and its value."""


def without_keys(text: str, removed: Collection[Keys]) -> str | None:
    """Returns valid YAML without some entries of mappings and lists; a mapping or list that would be empty goes too.

    Returns:
        None if the entries cannot be cut out, because an anchor in one of them is used elsewhere, for example.

    Example:
        >>> without_keys("features:\\n  # amounts\\n  fare: number\\n  tip: number\\n", [("features", "tip")])
        'features:\\n  # amounts\\n  fare: number\\n'
    """
    tree = read_yaml(text)
    removed = _with_emptied(tree.data, set(removed))
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    for first, last in sorted(_cuts(yaml.compose(text), (), removed, text), reverse=True):
        text = text[:first] + text[last:]
    shorter = read_yaml(text)
    return text if not shorter.problems and shorter.data == _pruned(tree.data, removed) else None


def _with_emptied(data: Any, removed: set[Keys]) -> set[Keys]:
    """Returns the removed paths, and those of the collections that lose all of their entries."""
    for parent in sorted({keys[:-1] for keys in removed if len(keys) > 1}, key=len, reverse=True):
        entries = _at(data, parent)
        names = entries if isinstance(entries, dict) else range(len(entries))
        if all((*parent, name) in removed for name in names):
            removed = _with_emptied(data, {keys for keys in removed if keys[:-1] != parent} | {parent})
    return removed


def _at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data[key]
    return data


def _pruned(data: Any, removed: Collection[Keys]) -> Any:
    data = copy.deepcopy(data)
    # From the end, so that the indices of a list stay true.
    for *parents, last in sorted(removed, key=lambda keys: [(isinstance(k, int), k) for k in keys], reverse=True):
        del _at(data, tuple(parents))[last]
    return data


def _cuts(node: Node, keys: Keys, removed: Collection[Keys], text: str) -> Iterator[tuple[int, int]]:
    """Yields the ranges of characters to cut."""
    if not isinstance(node, CollectionNode):
        return
    entries = list(_entries(node, keys))
    gone = [path in removed for path, _, _ in entries]
    last_kept = max((i for i, is_gone in enumerate(gone) if not is_gone), default=-1)
    for i, (path, begin, value) in enumerate(entries):
        if not gone[i]:
            yield from _cuts(value, path, removed, text)
        elif not node.flow_style:
            first = text.rfind("\n", 0, begin.start_mark.index) + 1
            yield first, (text.find("\n", max(first, _end(value) - 1)) + 1) or len(text)
        elif i < last_kept:
            yield begin.start_mark.index, entries[i + 1][1].start_mark.index
        elif i == last_kept + 1 and i > 0:
            yield _end(entries[i - 1][2]), _end(entries[-1][2])


def _entries(node: CollectionNode, keys: Keys) -> Iterator[_Entry]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield (*keys, key.value), key, value
    else:
        for i, item in enumerate(node.value):
            yield (*keys, i), item, item


def _end(node: Node) -> int:
    """Returns the index behind the last character of a node; that of a block in YAML's own marks is behind comments."""
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, MappingNode) else last)
