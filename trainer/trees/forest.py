"""Boosted trees as arrays, read from LightGBM's dump of a model (`Booster.dump_model`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np

_WORD = 32
_LARGEST = float(np.finfo(np.float32).max)
_PADDING = -1.0


@dataclass(frozen=True, eq=False)
class Forest:
    """Decisions and leaves of trees. All trees are padded to the numbers of decisions and leaves of the largest tree.

    A row goes left at a decision if its number is not larger than the threshold, if its id is in the set, or, for a
    missing number, if `missing_left` is set. Its leaf is the one whose path goes left exactly where the row does, which
    is where `path @ left == turns`; `left` is 1 for decisions at which the row goes left, else 0.

    Attributes:
        column: The column that a decision reads, int32 [trees, decisions].
        threshold: The largest number that goes left, float32 [trees, decisions].
        missing_left: Whether a missing number goes left, bool [trees, decisions].
        in_set: The index of the set of ids, int32 [trees, decisions]; -1 if a decision reads a number.
        set_start: Where each set begins in `words`, int32 [sets].
        set_words: The number of words of each set, int32 [sets].
        words: The ids of all sets as bits, the lowest first, int32 [words].
        path: 1 where the path to the leaf goes left, -1 where it goes right, else 0; float32 [trees, leaves,
            decisions].
        turns: The number of decisions at which the path to the leaf goes left, float32 [trees, leaves]; -1 for padding.
        value: The value that the leaf adds to the output, float32 [trees, leaves].
        outputs: The number of columns of the output; the trees contribute to them in turn.
    """

    column: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    in_set: np.ndarray
    set_start: np.ndarray
    set_words: np.ndarray
    words: np.ndarray
    path: np.ndarray
    turns: np.ndarray
    value: np.ndarray
    outputs: int

    @property
    def trees(self) -> int:
        """The number of trees."""
        return len(self.value)

    @property
    def leaves(self) -> int:
        """The number of leaves of all trees."""
        return int((self.turns >= 0).sum())


def forest_of(
    dumps: Sequence[Mapping[str, Any]], never_seen: Mapping[int, Sequence[int]] = MappingProxyType({})
) -> Forest:
    """Returns the trees of a booster, or of several boosters, each of which predicts a column of the output.

    Values that train does not contain go where most rows go: a missing number if train has none, and the ids in
    `never_seen`.
    """
    of_boosters = [[_Tree(info["tree_structure"]) for info in dump["tree_info"]] for dump in dumps]
    trees = [tree for round_ in zip_longest(*of_boosters, fillvalue=_Tree({"leaf_value": 0.0})) for tree in round_]
    leaves = max(len(tree.values) for tree in trees)
    shape = (len(trees), leaves - 1)
    column, in_set = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
    threshold, missing_left = np.zeros(shape, np.float32), np.zeros(shape, bool)
    path = np.zeros((len(trees), leaves, leaves - 1), np.float32)
    turns, value = np.full((len(trees), leaves), _PADDING, np.float32), np.zeros((len(trees), leaves), np.float32)
    sets: list[np.ndarray] = []
    for t, tree in enumerate(trees):
        for d, node in enumerate(tree.decisions):
            column[t, d] = node["split_feature"]
            if node["decision_type"] == "==":
                in_set[t, d] = len(sets)
                held = [int(text) for text in node["threshold"].split("||")]
                sets.append(_bits([*held, *(never_seen.get(node["split_feature"], ()) if _most_go_left(node) else ())]))
            else:
                threshold[t, d] = _at_most(node["threshold"])
                learned = node["missing_type"] == "NaN"
                missing_left[t, d] = node["default_left"] if learned else _most_go_left(node)
        for leaf, way in enumerate(tree.ways):
            for decision, left in way:
                path[t, leaf, decision] = 1 if left else -1
            turns[t, leaf] = sum(left for _, left in way)
        value[t, : len(tree.values)] = tree.values
    lengths = np.array([len(bits) for bits in sets], np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    words = np.concatenate([*sets, np.zeros(1, np.int32)])
    outputs = max(len(dumps), dumps[0]["num_tree_per_iteration"])
    return Forest(column, threshold, missing_left, in_set, starts, lengths, words, path, turns, value, outputs)


@dataclass
class _Tree:
    """A tree as lists: its decisions, and per leaf its value and the path to it, (decision, whether it goes left)."""

    root: Mapping[str, Any]
    decisions: list[Mapping[str, Any]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    ways: list[tuple[tuple[int, bool], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node, way in _walk(self.root, self.decisions):
            self.values.append(node["leaf_value"])
            self.ways.append(way)


def _walk(
    root: Mapping[str, Any], decisions: list[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], tuple[tuple[int, bool], ...]]]:
    """Yields the leaves with their paths, and appends the decisions.

    It does not recurse, because a tree may be as deep as it has leaves.
    """
    waiting: list[tuple[Mapping[str, Any], tuple[tuple[int, bool], ...]]] = [(root, ())]
    while waiting:
        node, way = waiting.pop()
        if "leaf_value" in node:
            yield node, way
            continue
        here = len(decisions)
        decisions.append(node)
        waiting += [(node["right_child"], (*way, (here, False))), (node["left_child"], (*way, (here, True)))]


def _most_go_left(node: Mapping[str, Any]) -> bool:
    children = (node["left_child"], node["right_child"])
    left, right = (child["internal_count"] if "internal_count" in child else child["leaf_count"] for child in children)
    return left >= right


def _bits(ids: Sequence[int]) -> np.ndarray:
    """Returns a set of ids as bits, the lowest first, int32 [words]."""
    words = np.zeros(max(ids) // _WORD + 1, np.uint32)
    for one in ids:
        words[one // _WORD] |= np.uint32(1 << one % _WORD)
    return words.view(np.int32)


def _at_most(threshold: float) -> float:
    """Returns the largest float32 that is not above a threshold; `x <= threshold` stays the same for every float32 x.

    Example: 0.1 becomes 0.09999999403953552, as the float32 nearest to 0.1 is larger than it.
    """
    nearest = np.float32(np.clip(threshold, -_LARGEST, _LARGEST))
    above = float(nearest) > threshold  # NumPy 2 would round the threshold to float32
    return float(np.nextafter(nearest, np.float32(-np.inf)) if above else nearest)
