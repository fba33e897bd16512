"""Vocabularies in the graph: map tokens to ids by the contract of `ids.py`, and set the domain of the ids.

Vocabularies are text files with one token per line. People can read them, and a SavedModel carries them as assets that
TensorFlow's own table ops load. A token with a line break cannot be in such a file; it is out of the vocabulary.
"""

from collections.abc import Callable, Sequence
from functools import partial

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Arrange, Learn, Limits, counted_vocabulary
from fullpass.preprocessing.apply.stable_ids import NO_BASE_MODEL, BaseModelRef, continue_vocabulary
from fullpass.preprocessing.apply.vocabulary_file import read_vocabulary_file
from fullpass.preprocessing.features.ids import StableIds, Vocabulary
from fullpass.preprocessing.internals.tft_internals import lookup_in_file, set_domain

Table = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""string [n] -> slot in the vocabulary, int64 [n], from 0, or -1 for a token outside it; and the number of slots, an
int64 scalar tensor, because the size of a learned vocabulary is unknown before analysis."""


def make_table(
    tokens: tf.Tensor, vocabulary: Vocabulary, name: str, columns: Columns, learn: Learn | None = None
) -> Table:
    """Returns the table of a vocabulary, learned from `tokens` unless it is given.

    Args:
        tokens: string [n], the present tokens of the batch.
        name: Unique file name of a learned vocabulary, from `outputs.vocabulary_name`.
        columns: Hold whether its ids are stable, and the base model.
        learn: Learns the vocabulary from the counts of `tokens`; None for a vocabulary of the tokens themselves.
    """
    given = given_tokens(vocabulary)
    if given is not None:
        return given_table(given)
    stable = columns.config.stable_ids_of(vocabulary)
    return learned_table(tokens, vocabulary, name, stable, columns.base_model, learn)


def given_tokens(vocabulary: Vocabulary) -> tuple[str, ...] | None:
    """Returns the tokens given in the configuration in id order; None if they are learned."""
    return vocabulary.tokens if vocabulary.file is None else read_vocabulary_file(vocabulary.file)


def learned_table(
    tokens: tf.Tensor,
    vocabulary: Vocabulary,
    name: str,
    stable: StableIds | None = None,
    base_model: BaseModelRef = NO_BASE_MODEL,
    learn: Learn | None = None,
) -> Table:
    """Returns the table of the tokens of the train split, with an analyzer.

    Without tokens the table has one slot, which no token matches.

    Args:
        tokens: string [n], the present tokens of the batch.
        stable: How long slots are kept; None numbers tokens by frequency.
    """
    arrange = None
    if stable is not None:
        arrange = partial(
            continue_vocabulary, name=name, keep=stable, oov_buckets=vocabulary.oov_buckets, base_model=base_model
        )
    path = _path(tokens, vocabulary, name, arrange, learn)

    def find(queries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        slots = tft.apply_vocabulary(queries, path)
        return slots, tft.get_num_buckets_for_transformed_feature(slots)

    return find


def _path(
    tokens: tf.Tensor, vocabulary: Vocabulary, name: str, arrange: Arrange | None, learn: Learn | None
) -> tf.Tensor:
    top_k, min_count, coverage = vocabulary.top_k, vocabulary.min_count, vocabulary.coverage
    if learn is not None:
        return counted_vocabulary(tokens, Limits(top_k=learn.most), name, learn=learn.learn, arrange=arrange)
    if arrange is not None or coverage is not None:
        return counted_vocabulary(tokens, Limits(coverage, top_k, min_count), name, arrange=arrange)
    return tft.vocabulary(
        tokens, top_k=top_k, frequency_threshold=min_count if min_count > 1 else None, vocab_filename=name
    )


def given_table(tokens: Sequence[str]) -> Table:
    """Returns the table of tokens that the configuration lists."""

    def make() -> tf.lookup.StaticHashTable:
        slots = tf.range(len(tokens), dtype=tf.int64)
        return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(tokens), slots), -1)

    table = tft.make_and_track_object(make)
    return lambda queries: (table.lookup(queries), tf.constant(len(tokens), tf.int64))


def encode_tokens(
    tokens: tf.Tensor, present: tf.Tensor, table: Table, *, oov_buckets: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns ids by the contract of `ids.py`, int64 [n], and the number of different ids, int64 scalar.

    0 means missing. 1 .. oov_buckets are hashed tokens outside the vocabulary. The vocabulary follows in its order.
    """
    slot, slots = table(tokens)
    ids = tf.where(slot >= 0, slot + 1 + oov_buckets, hash_ids(tokens, oov_buckets))
    return tf.where(present, ids, 0), slots + 1 + oov_buckets


def hash_ids(tokens: tf.Tensor, buckets: int, *, key: tuple[int, int] | None = None) -> tf.Tensor:
    """Returns 1 + hash(token) mod buckets: int64 of the shape of `tokens`."""
    return 1 + tft.hash_strings(tokens, buckets, key=key)


def count_table(tokens: tf.Tensor, name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function string [n] -> int64 [n]: token counts in the train split, 0 if absent. An analyzer."""
    # The file is text, because a table that reads records cannot be saved a second time, inside the export. A line is a
    # count, a blank and a token; so blanks in tokens are replaced before the file is written and before a query.
    path = tft.vocabulary(as_word(tokens), vocab_filename=name, store_frequency=True)

    def make(path: tf.Tensor) -> tf.lookup.StaticHashTable:
        initializer = tf.lookup.TextFileInitializer(path, tf.string, 1, tf.int64, 0, delimiter=" ")
        return tf.lookup.StaticHashTable(initializer, 0)

    return lambda queries: lookup_in_file(make, path, as_word(queries))[0]


def as_word(tokens: tf.Tensor) -> tf.Tensor:
    """Returns tokens with blanks and line breaks replaced by unit and record separators."""
    return tf.strings.regex_replace(tf.strings.regex_replace(tokens, " ", "\x1f"), "[\r\n]", "\x1e")


def with_domain(ids: tf.Tensor, size: tf.Tensor | int, low: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns int64 ids with the domain low .. size - 1 in the transformed schema.

    The result itself must be an output of `preprocessing_fn` or the values of one.
    """
    marked = tf.identity(ids)
    low, size = (tf.cast(tf.convert_to_tensor(value), tf.int64) for value in (low, size))
    set_domain(marked, low, size - 1)
    return marked
