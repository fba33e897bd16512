"""Transforms text: cleans it, splits it into tokens, joins tokens to n-grams, and looks them up in a vocabulary."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.category import present_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Learn
from fullpass.preprocessing.apply.learn_subwords import CONTINUES, LONGEST_PIECE, MOST_WORDS, learn_pieces
from fullpass.preprocessing.apply.list_tensors import (
    gather_kept,
    rows_of_rows,
    rows_of_sparse,
    select_kept,
    used_lengths,
)
from fullpass.preprocessing.apply.token_table import TokenTable
from fullpass.preprocessing.apply.vocabulary import given_tokens, ids_of_slots, source_of, with_domain
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.features.feature import TextFeature
from fullpass.preprocessing.features.ids import Vocabulary
from fullpass.preprocessing.features.output import transformed_name, weight_name

_PUNCTUATION = r"[^\pL\pM\pN\s]"
_WITHOUT_BLANKS = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\pM*)"
_SEPARATOR = "\x1f"
LONGEST_WORD = 64
"""In characters; longer words are cut into several."""
_STEPS = 6  # A word has at most 2 ** 6 pieces.
_CUT = r"([^\s]{64})"


@dataclass(frozen=True)
class Tokens:
    """The tokens of rows. Tokens within words are those of distinct words, since most words repeat.

    Attributes:
        values: string [n].
        in_rows: Something of each of `values`, [n] -> that of the tokens of each row, [batch, (tokens)].
        counts: How often each of `values` occurs in the rows, int64 [n]; None: once.
    """

    values: tf.Tensor
    in_rows: Callable[[tf.Tensor], tf.RaggedTensor]
    counts: tf.Tensor | None = None


def text(name: str, feature: TextFeature, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Transforms text into ids: a sparse row per example, or int64 [batch, max_length]; see `TextFeature`."""
    tokens = _tokens(name, feature, columns)
    learn = _learn_pieces(feature.vocabulary) if feature.tokenize == "subwords" else None
    source = source_of(tokens.values, feature.vocabulary, vocabulary_name(name), columns, learn, tokens.counts)
    table = TokenTable([source])
    if feature.tokenize == "subwords":
        tokens = split_words(tokens.in_rows(tokens.values), table, _longest_piece(feature.vocabulary))
    oov_buckets = feature.vocabulary.oov_buckets
    rows = tokens.in_rows(ids_of_slots(table.find(tokens.values), tokens.values, oov_buckets))
    (high,) = table.highest_ids(oov_buckets)
    key = transformed_name(name)
    if feature.output == "tf_idf":
        distinct, weights = tf_idf(rows, high + 1)
        return {key: with_domain(distinct, high), weight_name(name): weights}
    if feature.output == "bag_of_words":
        ids = rows.to_sparse()
        return {key: with_domain(tf.sets.union(ids, ids), high)}
    if feature.max_length is None:
        return {key: with_domain(rows.to_sparse(), high)}
    return {key: with_domain(rows.to_tensor(0, shape=[None, feature.max_length]), high)}


def _learn_pieces(vocabulary: Vocabulary) -> Learn:
    size, min_count = vocabulary.top_k or 1, vocabulary.min_count
    return Learn(partial(learn_pieces, size=size, min_count=min_count), MOST_WORDS)


def _longest_piece(vocabulary: Vocabulary) -> int:
    given = given_tokens(vocabulary)
    return LONGEST_PIECE if given is None else max(len(piece.removeprefix(CONTINUES)) for piece in given)


def _tokens(name: str, feature: TextFeature, columns: Columns) -> Tokens:
    """Returns the tokens of each row; for a list of texts, the tokens of one text after the other."""
    column = feature.column or name
    if feature.list is None:
        return tokenize(columns.string(column).values, feature)
    lists = columns.elements(column, numbers=False)
    kept = select_kept(used_lengths(lists), feature.list)
    of_texts = tokenize(gather_kept(lists, kept), feature)

    def in_rows(values: tf.Tensor) -> tf.RaggedTensor:
        return rows_of_rows(of_texts.in_rows(values), kept.rows, tf.size(kept.count, tf.int64))

    return replace(of_texts, in_rows=in_rows)


def tokenize(texts: tf.Tensor, feature: TextFeature) -> Tokens:
    """Splits text, string [batch], into tokens and joins tokens to n-grams.

    N-grams are ordered by the position of their first token, then from short to long. An empty text has no tokens.
    Words are not yet split into subwords here.
    """
    if feature.lowercase:
        texts = tf.strings.lower(texts, encoding="utf-8")
    if feature.strip_punctuation:
        texts = tf.strings.regex_replace(texts, _PUNCTUATION, " ")
    rows = _split(texts, feature)
    if feature.tokenize == "word_characters" and feature.pattern is None:
        return _within_words(rows, partial(_runs, ngrams=feature.ngrams))
    if feature.ngrams != (1, 1):
        rows = rows_of_sparse(tft.ngrams(rows.to_sparse(), feature.ngrams, " "))
    return Tokens(rows.values, rows.with_values)


def _within_words(words: tf.RaggedTensor, parts_of: Callable[[tf.Tensor], tf.RaggedTensor]) -> Tokens:
    """Returns the parts of the words of each row as its tokens, those of one word after those of the other.

    Args:
        words: string [batch, (words)].
        parts_of: Distinct words, string [n] -> their parts, string [n, (parts)].
    """
    distinct, of_word, counts = tf.unique_with_counts(words.flat_values, tf.int64)
    parts = parts_of(distinct)

    def in_rows(values: tf.Tensor) -> tf.RaggedTensor:
        return rows_of_rows(tf.gather(parts.with_values(values), of_word), words.value_rowids(), words.nrows())

    return Tokens(parts.values, in_rows, tf.gather(counts, parts.value_rowids()))


def _runs(words: tf.Tensor, ngrams: tuple[int, int]) -> tf.RaggedTensor:
    """Returns the n-grams of the characters of each word and of a blank at both its ends: string [n, (n-grams)]."""
    characters = tf.strings.unicode_split(tf.strings.join([" ", words, " "]), "UTF-8")
    return characters if ngrams == (1, 1) else rows_of_sparse(tft.ngrams(characters.to_sparse(), ngrams, ""))


def _split(texts: tf.Tensor, feature: TextFeature) -> tf.RaggedTensor:
    if feature.pattern is not None:
        separated = tf.strings.regex_replace(texts, feature.pattern, _SEPARATOR)
        return present_tokens(tf.strings.split(separated, _SEPARATOR))
    if feature.tokenize == "characters":
        return tf.strings.unicode_split(texts, "UTF-8")
    if feature.tokenize in ("words", "word_characters", "subwords"):
        texts = tf.strings.regex_replace(texts, _WITHOUT_BLANKS, r" \1 ")
    if feature.tokenize == "subwords":
        texts = split_long_words(texts)
    return tf.strings.split(texts)


def split_long_words(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts, string [n], as UTF-8 without runs of non-blank characters longer than `LONGEST_WORD`."""
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(valid, _CUT, r"\1 ")


def split_words(words: tf.RaggedTensor, table: TokenTable, longest: int) -> Tokens:
    """Returns the pieces of the words of each row, one word after the other, as its tokens.

    The longest piece of the vocabulary is taken from the beginning of a word, then the longest one from there on, and
    so on. Pieces that continue a word begin with `##`. A character that no piece begins with is a piece of its own,
    outside the vocabulary. No loop over characters is needed: the longest piece starting at each character is looked
    up, and pointer doubling finds the characters that are reached from the first one.
    Source: WordPiece (Wu et al., Google's Neural Machine Translation System, 2016).

    Args:
        words: string [batch, (words)]; not empty and not longer than `LONGEST_WORD`.
        longest: Length in characters of the longest piece, without continuation marks.
    """
    return _within_words(words, partial(_pieces, table=table, longest=longest))


def _pieces(words: tf.Tensor, table: TokenTable, longest: int) -> tf.RaggedTensor:
    """Returns the pieces of each word: string [words, (pieces)]."""
    characters, starts = tf.strings.unicode_decode_with_offsets(words, "UTF-8")
    word = characters.value_rowids()
    first, size = tf.gather(characters.row_starts(), word), tf.size(word, tf.int64)
    place = tf.range(size)
    starts = starts.flat_values
    last = tf.gather(characters.row_limits(), word)
    bytes_of_word = tf.gather(tf.strings.length(words), word)
    ends = tf.where(place + 1 < last, tf.roll(starts, -1, 0), tf.cast(bytes_of_word, tf.int64))

    # The longest candidate starting at each character, with its mark; the other candidates are prefixes of it.
    counts = tf.minimum(last - place, longest)
    mark = tf.where(place > first, CONTINUES, "")
    rest = tf.strings.substr(tf.gather(words, word), starts, tf.gather(ends, place + counts - 1) - starts)
    whole = tf.strings.join([mark, rest])
    of_place = tf.repeat(place, counts)
    begins = tf.cumsum(counts, exclusive=True)
    length = tf.range(tf.size(of_place, tf.int64)) - tf.gather(begins, of_place)
    stop = tf.gather(ends, of_place + length) - tf.gather(starts, of_place)
    stop += tf.gather(tf.cast(tf.strings.length(mark), tf.int64), of_place)
    candidates = tf.strings.substr(tf.gather(whole, of_place), tf.zeros_like(stop), stop)
    slots = table.find(candidates)
    found = tf.math.unsorted_segment_max(tf.where(slots >= 0, length, 0), of_place, size)
    reached = _reached(place, tf.equal(place, first), found + 1)
    taken = tf.boolean_mask(begins + found, reached)
    lengths = tf.math.unsorted_segment_sum(tf.cast(reached, tf.int64), word, tf.size(words, tf.int64))
    return tf.RaggedTensor.from_row_lengths(tf.gather(candidates, taken), lengths, validate=False)


def _reached(place: tf.Tensor, first: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """Returns where pieces begin, bool [characters]: at first characters, and at the characters reached from them.

    A step from the last piece of a word leads to the first character of the next word, where a piece begins anyway.
    """
    size = tf.size(place, tf.int64)
    following = tf.minimum(place + step, size)
    reached = tf.cast(first, tf.int64)
    for _ in range(_STEPS):
        from_here = tf.math.unsorted_segment_max(reached, following, size + 1)[:-1]
        reached = tf.maximum(reached, from_here)
        following = tf.gather(tf.concat([following, [size]], 0), following)
    return reached > 0


def tf_idf(rows: tf.RaggedTensor, size: tf.Tensor | int) -> tuple[tf.SparseTensor, tf.SparseTensor]:
    """Returns the distinct ids of each row, ascending, and the weight of each, int64 and float32 [batch, (ids)].

    The weight of an id is (count of the id in the row) / (ids in the row) * (1 + log((n + 1) / (m + 1))), for n train
    rows, of which m have the id. `tft.tfidf` computes the same, but copies all ids several times, which took 10 GB for
    long texts.

    Args:
        rows: Ids, int64 [batch, (ids)], from 0 and less than `size`.
    """
    batch = rows.nrows()
    given = rows.to_sparse()
    # The operation refuses a batch without rows, so it gets one more, which has no ids.
    one_more = tf.SparseTensor(given.indices, given.values, given.dense_shape + tf.constant([1, 0], tf.int64))
    counted = tf.sparse.bincount(one_more, axis=-1)
    row, ids = counted.indices[:, 0], counted.indices[:, 1]
    held = tf.math.bincount(ids, minlength=size, maxlength=size, dtype=tf.int64)
    rows_with_id = tf.reshape(tft.sum(held[tf.newaxis], reduce_instance_dims=False), [-1])
    train_rows = tft.sum(batch[tf.newaxis])
    rarity = 1.0 + tf.math.log((tf.cast(train_rows, tf.float32) + 1.0) / (tf.cast(rows_with_id, tf.float32) + 1.0))
    share = tf.cast(counted.values, tf.float64) / tf.cast(tf.gather(rows.row_lengths(), row), tf.float64)
    weights = tf.cast(share, tf.float32) * tf.gather(rarity, ids)
    of_rows = tf.RaggedTensor.from_value_rowids(ids, row, batch, validate=False)
    return of_rows.to_sparse(), of_rows.with_values(weights).to_sparse()
