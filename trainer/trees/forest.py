"""Boosted trees as arrays, read from LightGBM's dump of a model (`Booster.dump_model`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_BLOCK = 32
"""The most leaves of a block. A tree of more becomes several: a product of all its decisions and leaves, most of which
have nothing to do with each other, would grow with their square."""
_WORD = 32
"""Bits of a word of a set of ids; `_WORD_BITS` is its logarithm."""
_LARGEST = float(np.finfo(np.float32).max)
_PADDING = -1.0
"""`turns` of a leaf that only fills the array: no row turns left less than never."""
_CELLS = 1 << 21
"""Leaves of all trees times rows that are processed at a time; each takes some tens of bytes of memory."""
_WORD_BITS = 5
"""Logarithm of the 32 bits of an int32."""
_MAX_ID = 2.0**30
"""Ids are clipped to this, which no feature has, so that a float of any size converts to int32."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Decisions and leaves of trees, as blocks of up to 32 leaves of a tree, with all decisions on the paths to them.

    All blocks are padded to the numbers of decisions and leaves of the largest one. A row has a leaf in one of the
    blocks of a tree, and adds nothing in the others.

    A row goes left at a decision if its number is not larger than the threshold, if its id is in the set, or, for a
    missing number, if `missing_left` is set. Its leaf is the one whose path goes left exactly where the row does, which
    is where `path @ left == turns`; `left` is 1 for decisions at which the row goes left, else 0.

    Attributes:
        column: The column that a decision reads, int32 [blocks, decisions].
        threshold: The largest number that goes left, float32 [blocks, decisions].
        missing_left: Whether a missing number goes left, bool [blocks, decisions].
        in_set: The index of the set of ids, int32 [blocks, decisions]; -1 if a decision reads a number.
        set_start: Where each set begins in `words`, int32 [sets].
        set_words: The number of words of each set, int32 [sets].
        words: The ids of all sets as bits, the lowest first, int32 [words].
        path: 1 where the path to the leaf goes left, -1 where it goes right, else 0; float32 [blocks, leaves,
            decisions].
        turns: The number of decisions at which the path to the leaf goes left, float32 [blocks, leaves]; -1 for
            padding.
        value: The value that the leaf adds to the output, float32 [blocks, leaves].
        outputs: The number of columns of the output; the blocks contribute to them in turn.
        trees: The number of trees.
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
    trees: int

    @property
    def leaves(self) -> int:
        """The number of leaves of all trees."""
        return int((self.turns >= 0).sum())

    def decisions(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns what each decision compares, int32, and the most that goes left, float32 [blocks, decisions].

        A decision takes only one comparison: missing numbers are -inf in a first copy of the columns and inf in a
        second copy, and the results of the sets, 0 or 1, follow.
        """
        reads_ids = self.in_set >= 0
        source = np.where(reads_ids, 2 * columns + self.in_set, self.column + columns * ~self.missing_left)
        return source.astype(np.int32), np.where(reads_ids, np.float32(0.5), self.threshold)


def mean_of(members: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Returns dumps of as many boosters as a member has, whose output is the mean of all members."""
    return [
        {**same[0], "tree_info": [{**tree, "share": 1 / len(same)} for dump in same for tree in dump["tree_info"]]}
        for same in zip(*members, strict=True)
    ]


def forest_of(
    dumps: Sequence[Mapping[str, Any]], never_seen: Mapping[int, Sequence[int]] = MappingProxyType({})
) -> Forest:
    """Returns the trees of a booster, or of several boosters, each of which predicts a column of the output.

    Values that train does not contain go where most rows go: a missing number if train has none, and the ids in
    `never_seen`.
    """
    outputs = max(len(dumps), dumps[0]["num_tree_per_iteration"])
    of_boosters = [
        [_Tree(info["tree_structure"], info.get("share", 1.0)) for info in dump["tree_info"]] for dump in dumps
    ]
    in_turn = [tree for round_ in zip_longest(*of_boosters, fillvalue=_Tree({"leaf_value": 0.0})) for tree in round_]
    trees = [
        block
        for at in range(0, len(in_turn), outputs)
        for of_round in zip_longest(
            *(tree.blocks() for tree in in_turn[at : at + outputs]), fillvalue=_Tree({"leaf_value": 0.0})
        )
        for block in of_round
    ]
    leaves = max(len(tree.values) for tree in trees)
    shape = (len(trees), max(len(tree.decisions) for tree in trees))
    column, in_set = np.zeros(shape, np.int32), np.full(shape, -1, np.int32)
    threshold, missing_left = np.zeros(shape, np.float32), np.zeros(shape, bool)
    path = np.zeros((len(trees), leaves, shape[1]), np.float32)
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
    count = sum(map(len, of_boosters))
    return Forest(column, threshold, missing_left, in_set, starts, lengths, words, path, turns, value, outputs, count)


@dataclass
class _Tree:
    """A tree, or a block of it, as lists: decisions, and per leaf its value and path, (decision, whether it goes left).

    `share` is the factor of the values; a block has no `root`.
    """

    root: Mapping[str, Any] | None = None
    share: float = 1.0
    decisions: list[Mapping[str, Any]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    ways: list[tuple[tuple[int, bool], ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.root is not None:
            for node, way in _walk(self.root, self.decisions):
                self.values.append(self.share * node["leaf_value"])
                self.ways.append(way)

    def blocks(self) -> "list[_Tree]":
        """Returns the tree in as few blocks of neighboring leaves as it takes, of nearly equal size."""
        count = -(-len(self.values) // _BLOCK)
        size = -(-len(self.values) // count)
        return [self] if count == 1 else [self._block(at, at + size) for at in range(0, len(self.values), size)]

    def _block(self, start: int, end: int) -> "_Tree":
        ways = self.ways[start:end]
        new = {old: number for number, old in enumerate(sorted({decision for way in ways for decision, _ in way}))}
        moved = [tuple((new[decision], left) for decision, left in way) for way in ways]
        return _Tree(None, self.share, [self.decisions[old] for old in new], self.values[start:end], moved)


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


class ForestLayer(keras.layers.Layer):
    """columns float32 [batch, columns], NaN where missing and ids as numbers -> output float32 [batch, outputs].

    All decisions of all trees are evaluated at once. A matrix product then finds the leaf of each row (Nakandala et al.
    2020, A Tensor Compiler for Unified Machine Learning Prediction Serving). Following each row from node to node would
    take several times as long. The leaf values are summed in float64. The layer has no gradient.
    """

    def __init__(self, forest: Forest, **options):
        super().__init__(trainable=False, autocast=False, dtype="float32", **options)
        self.forest = forest
        self._follow = tf.function(self._outputs, autograph=False, reduce_retracing=True)

    def build(self, shape):
        forest = self.forest
        reads_ids = forest.in_set >= 0
        source, threshold = forest.decisions(shape[1])
        held = {
            "source": source.ravel(),
            "threshold": threshold[:, :, None],
            "path": forest.path,
            "turns": forest.turns[:, :, None],
            "value": forest.value[:, None, :],
            "set_column": forest.column[reads_ids][np.argsort(forest.in_set[reads_ids])],
            "set_start": forest.set_start[:, None],
            "set_words": forest.set_words[:, None],
            "words": forest.words,
        }
        for name, array in held.items():
            weight = self.add_weight(shape=array.shape, dtype=array.dtype.name, trainable=False, name=name)
            weight.assign(array)
            setattr(self, f"_{name}", weight)

    def call(self, columns):
        return self._follow(tf.convert_to_tensor(columns))

    def compute_output_shape(self, shape):
        return (shape[0], self.forest.outputs)

    def _outputs(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns the output for rows, chunk by chunk, so that a large batch takes no more memory than a chunk."""
        columns = tf.transpose(columns)
        rows, together = tf.shape(columns)[1], max(1, _CELLS // self.forest.value.size)
        chunks = tf.maximum(1, (rows + together - 1) // together)
        outputs = tf.TensorArray(tf.float32, size=chunks, infer_shape=False)

        def add(chunk: tf.Tensor, outputs: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            part = columns[:, chunk * together : (chunk + 1) * together]
            return chunk + 1, outputs.write(chunk, self._chunk_outputs(part))

        _, outputs = tf.while_loop(lambda chunk, _: chunk < chunks, add, (0, outputs))
        return tf.ensure_shape(outputs.concat(), [None, self.forest.outputs])

    def _chunk_outputs(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns the output, float32 [rows, outputs], for columns [columns, rows]."""
        missing = tf.math.is_nan(columns)
        known = [tf.where(missing, -np.inf, columns), tf.where(missing, np.inf, columns)]
        if len(self.forest.set_start):
            known.append(self._outside(tf.where(missing, -1.0, columns)))
        shape = [*self.forest.column.shape, tf.shape(columns)[1]]
        seen = tf.reshape(tf.gather(tf.concat(known, 0), self._tensor("source")), shape)
        left = tf.cast(seen <= self._tensor("threshold"), tf.float32)
        on_leaf = tf.cast(tf.matmul(self._tensor("path"), left) == self._tensor("turns"), tf.float32)
        # Each block has one active leaf per row at most, so this product is exact.
        of_trees = tf.cast(tf.matmul(self._tensor("value"), on_leaf), tf.float64)
        by_round = tf.reshape(of_trees, [-1, self.forest.outputs, shape[2]])
        return tf.cast(tf.transpose(tf.reduce_sum(by_round, axis=0)), tf.float32)

    def _outside(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns 0 if the set contains the id of the row and 1 if it does not, float32 [sets, rows]."""
        ids = tf.cast(tf.clip_by_value(tf.gather(columns, self._tensor("set_column")), -1.0, _MAX_ID), tf.int32)
        word = tf.bitwise.right_shift(ids, _WORD_BITS)
        within = (ids >= 0) & (word < self._tensor("set_words"))
        bits = tf.gather(self._tensor("words"), tf.where(within, self._tensor("set_start") + word, 0))
        bit = tf.bitwise.right_shift(bits, tf.bitwise.bitwise_and(ids, (1 << _WORD_BITS) - 1))
        held = within & (tf.bitwise.bitwise_and(bit, 1) > 0)
        return tf.where(held, 0.0, 1.0)

    def _tensor(self, name: str) -> tf.Tensor:
        return tf.convert_to_tensor(getattr(self, f"_{name}"))
