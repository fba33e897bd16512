"""Lookup tables that are filled from files of analyzers: one for the tokens of several vocabularies.

An analysis traces the graph before it writes the files, with tables of placeholders. `TracedTable` says how to fill
them again, so that the same trace serves the graph that is written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.list_tensors import group_of_each
from fullpass.preprocessing.internals.tf_internals import TableInitializer
from fullpass.preprocessing.internals.tft_internals import eager_asset_path

Source: TypeAlias = tf.Tensor | Sequence[str]
"""A vocabulary: the path of its file, string [], or the tokens that the configuration lists."""


TRACED_TABLES = "fullpass_traced_tables"
"""The collection of a graph that holds its `TracedTable`s."""


class TracedTable(NamedTuple):
    """A table of a traced graph.

    handle: the resource that the graph captures. paths: those of its files, string [] in the graph. fill: these paths,
    eager -> the table, and the number of slots of each of its vocabularies. highest: tensors of the graph that stand
    for these numbers, int64 [vocabularies], each with a number to add.
    """

    handle: tf.Tensor
    paths: Sequence[tf.Tensor]
    fill: Callable[[Sequence[tf.Tensor]], tuple[tf.lookup.StaticHashTable, Sequence[int]]]
    highest: Sequence[tuple[tf.Tensor, int]] = ()


def look_up(make: Callable[[tf.Tensor], tf.lookup.StaticHashTable], path: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Returns what the table of an analyzer's file, which becomes an asset of the export, has for each word.

    Args:
        make: Path -> table.
        words: string [n].
    """
    found, pending = eager_asset_path(path)
    table = tft.make_and_track_object(lambda: make(found))
    traced = TracedTable(table.resource_handle, [path], lambda paths: (make(paths[0]), ()))
    tf.compat.v1.add_to_collection(TRACED_TABLES, traced)
    with tf.control_dependencies([] if pending is None else [tf.identity(pending)]):
        return table.lookup(words)


class TokenTable:
    """The tokens of vocabularies in one table, so that a further vocabulary adds no operations of its own.

    A token with a line break cannot be in a file; it is out of the vocabulary.

    Attributes:
        sizes: The number of slots of each vocabulary. A learned vocabulary without tokens has one slot, which no token
            matches. Before the analysis, learned vocabularies have none.
    """

    def __init__(self, sources: Sequence[Source]):
        paths = {number: source for number, source in enumerate(sources) if isinstance(source, tf.Tensor)}
        given = {number: source for number, source in enumerate(sources) if not isinstance(source, tf.Tensor)}
        resolved = {number: eager_asset_path(path) for number, path in paths.items()}
        # In an analysis, tokens are looked up in files that the analysis has yet to write.
        self._pending = [path for _, path in resolved.values() if path is not None]
        self._prefixes = [f"{number} " for number in range(len(sources))] if len(sources) > 1 else [""]

        def fill(paths: Sequence[tf.Tensor]) -> tuple[tf.lookup.StaticHashTable, list[int]]:
            filled = _Fill(dict(zip(resolved, paths, strict=True)), given, self._prefixes)
            return tf.lookup.StaticHashTable(filled, -1), filled.sizes

        with tf.init_scope():
            table, self.sizes = fill([path for path, _ in resolved.values()])
        self._table = tft.make_and_track_object(lambda: table)
        self._highest: list[tuple[tf.Tensor, int]] = []
        traced = TracedTable(table.resource_handle, list(paths.values()), fill, self._highest)
        tf.compat.v1.add_to_collection(TRACED_TABLES, traced)

    def highest_ids(self, first: int) -> Sequence[tf.Tensor | int]:
        """Returns the greatest id of each vocabulary, whose first slot has the id `first` + 1.

        Before the analysis these are tensors: one operation for all vocabularies.
        """
        known = [size + first for size in self.sizes]
        if not self._pending:
            return known
        later = tf.compat.v1.placeholder_with_default(tf.constant(known, tf.int64), [len(known)])
        self._highest.append((later, first))
        return tf.unstack(later, num=len(known))

    def find(self, tokens: tf.Tensor, numbers: Sequence[int] = (0,), counts: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the slot of each token in its vocabulary, int64 [n], from 0; -1 for a token outside it.

        Args:
            tokens: string [n].
            numbers: The numbers of the vocabularies of `tokens`, in their order.
            counts: int64 [numbers], how many of the tokens belong to each; None if all belong to the only one.
        """
        prefixes = tf.constant([self._prefixes[number] for number in numbers])
        keys = tokens if counts is None else tf.strings.join([tf.gather(prefixes, group_of_each(counts)), tokens])
        with tf.control_dependencies([tf.stack(self._pending)] if self._pending else []):
            return self._table.lookup(keys)


class _Fill(TableInitializer):
    """Fills a table: the key of a token is the prefix of its vocabulary and the token, its value the slot.

    Args:
        files: Number of a vocabulary -> path of its file, an eager string [].
        given: Number of a vocabulary -> its tokens.
    """

    def __init__(self, files: Mapping[int, tf.Tensor], given: Mapping[int, Sequence[str]], prefixes: Sequence[str]):
        super().__init__(tf.string, tf.int64)
        self._prefixes = [prefixes[number] for number in files]
        self._files = [self.saved_with(tf.saved_model.Asset(path), f"_file_{i}") for i, path in files.items()]
        self._given_keys = [f"{prefixes[number]}{token}" for number, tokens in given.items() for token in tokens]
        self._given_slots = [slot for tokens in given.values() for slot in range(len(tokens))]
        of_files = dict(zip(files, np.bincount(self._lines()[0].numpy(), minlength=len(files)).tolist(), strict=True))
        self.sizes = [of_files[n] if n in files else len(given[n]) for n in range(len(files) + len(given))]

    def initialize(self, table: tf.lookup.StaticHashTable) -> tf.Operation:
        """Returns the operation that fills the table."""
        rows, slots, tokens = self._lines()
        read = tf.strings.join([tf.gather(tf.constant(self._prefixes, tf.string), rows), tokens])
        keys = tf.concat([read, tf.constant(self._given_keys, tf.string)], 0)
        values = tf.concat([slots, tf.constant(self._given_slots, tf.int64)], 0)
        return tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=keys, values=values)

    def _lines(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the file, the line and the text of each line: int64 [n], int64 [n], string [n]."""
        if not self._files:
            return tf.zeros([0], tf.int64), tf.zeros([0], tf.int64), tf.zeros([0], tf.string)
        contents = tf.stack([tf.io.read_file(file.asset_path) for file in self._files])
        split = tf.raw_ops.StringSplitV2(input=contents, sep="\n")
        # Every line ends with a line feed; what follows the last one is no line.
        lines = tf.where(tf.not_equal(split.values, ""))[:, 0]
        positions = tf.gather(split.indices, lines)
        return positions[:, 0], positions[:, 1], tf.gather(split.values, lines)
