"""Vocabularies in the graph: map tokens to ids by the contract of `ids.py`, and set the domain of the ids.

Vocabularies are text files with one token per line. People can read them, and a SavedModel carries them as assets.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Learn, Limits, counted_vocabulary
from fullpass.preprocessing.apply.stable_ids import continue_vocabulary
from fullpass.preprocessing.apply.token_table import Source, look_up
from fullpass.preprocessing.apply.vocabulary_file import read_vocabulary_file
from fullpass.preprocessing.features.ids import Vocabulary
from fullpass.preprocessing.internals.tft_internals import set_domain

_Ids = TypeVar("_Ids", tf.Tensor, tf.SparseTensor)


def source_of(
    tokens: tf.Tensor,
    vocabulary: Vocabulary,
    name: str,
    columns: Columns,
    learn: Learn | None = None,
    counts: tf.Tensor | None = None,
) -> Source:
    """Returns the tokens of a vocabulary, or the path of its file, which an analyzer writes.

    Args:
        tokens: string [n], the tokens of the batch; "" is missing.
        name: Unique file name of a learned vocabulary, from `outputs.vocabulary_name`.
        columns: Hold whether its ids are stable, and the base model.
        learn: Learns the vocabulary from the counts of `tokens`; None for a vocabulary of the tokens themselves.
        counts: int64 [n], how often each of the tokens occurs; by default once.
    """
    given = given_tokens(vocabulary)
    if given is not None:
        return given
    stable = columns.config.stable_ids_of(vocabulary)
    arrange = None
    if stable is not None:
        arrange = partial(
            continue_vocabulary,
            name=name,
            keep=stable,
            oov_buckets=vocabulary.oov_buckets,
            base_model=columns.base_model,
        )
    if learn is not None:
        limits = Limits(top_k=learn.most)
        return counted_vocabulary(tokens, limits, name, learn=learn.learn, arrange=arrange, amounts=counts)
    limits = Limits(vocabulary.coverage, vocabulary.top_k, vocabulary.min_count)
    return counted_vocabulary(tokens, limits, name, arrange=arrange, amounts=counts)


def given_tokens(vocabulary: Vocabulary) -> tuple[str, ...] | None:
    """Returns the tokens given in the configuration in id order; None if they are learned."""
    return vocabulary.tokens if vocabulary.file is None else read_vocabulary_file(vocabulary.file)


def ids_of_slots(slots: tf.Tensor, tokens: tf.Tensor, oov_buckets: int) -> tf.Tensor:
    """Returns ids by the contract of `ids.py`, int64 [n].

    0 means missing. 1 .. oov_buckets are hashed tokens outside the vocabulary. The vocabulary follows in its order.

    Args:
        slots: int64 [n], the slots of the tokens, from `TokenTable.find`.
        tokens: string [n], "" for missing.
    """
    ids = tf.where(slots >= 0, slots + (1 + oov_buckets), hash_ids(tokens, oov_buckets))
    return tf.where(tf.equal(tokens, ""), tf.constant(0, tf.int64), ids)


def hash_ids(tokens: tf.Tensor, buckets: int, *, key: tuple[int, int] | None = None) -> tf.Tensor:
    """Returns 1 + hash(token) mod buckets: int64 of the shape of `tokens`; of no shape for a single bucket."""
    return tf.constant(1, tf.int64) if buckets == 1 else 1 + tft.hash_strings(tokens, buckets, key=key)


def count_table(tokens: tf.Tensor, name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function string [n] -> int64 [n]: token counts in the train split, 0 if absent. An analyzer."""
    # The file is text, because a table that reads records cannot be saved a second time, inside the export. A line is a
    # count, a blank and a token; so blanks in tokens are replaced before the file is written and before a query.
    path = tft.vocabulary(as_word(tokens), vocab_filename=name, store_frequency=True)

    def make(path: tf.Tensor) -> tf.lookup.StaticHashTable:
        initializer = tf.lookup.TextFileInitializer(path, tf.string, 1, tf.int64, 0, delimiter=" ")
        return tf.lookup.StaticHashTable(initializer, 0)

    return lambda queries: look_up(make, path, as_word(queries))


def as_word(tokens: tf.Tensor) -> tf.Tensor:
    """Returns tokens with blanks and line breaks replaced by group and record separators.

    The unit separator stays alone for the parts of combinations: ("a b", "c") is another than ("a", "b c").
    """
    return tf.strings.regex_replace(tf.strings.regex_replace(tokens, " ", "\x1d"), "[\r\n]", "\x1e")


def with_domain(ids: _Ids, high: tf.Tensor | int, low: tf.Tensor | int = 0) -> _Ids:
    """Returns int64 ids, dense or sparse, with the domain low .. high in the transformed schema.

    The result itself must be an output of `preprocessing_fn` or the values of one.
    """
    set_domain(ids.values if isinstance(ids, tf.SparseTensor) else ids, _bound(low), _bound(high))
    return ids


def _bound(value: tf.Tensor | int) -> tf.Tensor:
    """Returns a bound of a domain; a number stays outside of the graph, which then has no operation for it."""
    if isinstance(value, tf.Tensor):
        return tf.cast(value, tf.int64)
    with tf.init_scope():
        return tf.constant(value, tf.int64)
