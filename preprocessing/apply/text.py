"""Transforms text: cleans it, splits it into tokens, joins tokens to n-grams, and looks them up in a vocabulary."""

from functools import partial

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.category import present_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Learn
from fullpass.preprocessing.apply.learn_subwords import CONTINUES, LONGEST_PIECE, MOST_WORDS, learn_pieces
from fullpass.preprocessing.apply.list_tensors import gather_kept, select_kept, used_lengths
from fullpass.preprocessing.apply.split_subwords import split_long_words, split_words
from fullpass.preprocessing.apply.vocabulary import encode_tokens, given_tokens, make_table, with_domain
from fullpass.preprocessing.columns.outputs import vocabulary_name, weight_name
from fullpass.preprocessing.features.feature import TextFeature, transformed_name
from fullpass.preprocessing.features.ids import Vocabulary

_PUNCTUATION = r"[^\pL\pM\pN\s]"
_WITHOUT_BLANKS = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\pM*)"
_SEPARATOR = "\x1f"


def text(name: str, feature: TextFeature, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Transforms text into ids: a sparse row per example, or int64 [batch, max_length]; see `TextFeature`."""
    tokens = _tokens(name, feature, columns)
    learn = _learn_pieces(feature.vocabulary) if feature.tokenize == "subwords" else None
    table = make_table(tokens.values, feature.vocabulary, vocabulary_name(name), columns, learn)
    if feature.tokenize == "subwords":
        words = tf.RaggedTensor.from_sparse(tokens)
        tokens = split_words(words, table, _longest_piece(feature.vocabulary)).to_sparse()
    present = tf.ones_like(tokens.values, tf.bool)
    ids, size = encode_tokens(tokens.values, present, table, oov_buckets=feature.vocabulary.oov_buckets)
    rows = tf.SparseTensor(tokens.indices, ids, tokens.dense_shape)
    key = transformed_name(name)
    if feature.output == "tf_idf":
        distinct, weights = tft.tfidf(rows, size)
        return {key: _with_domain(distinct, size), weight_name(name): weights}
    if feature.output == "bag_of_words":
        return {key: _with_domain(tf.sets.union(rows, rows), size)}
    if feature.max_length is None:
        return {key: _with_domain(rows, size)}
    padded = tf.RaggedTensor.from_sparse(rows).to_tensor(0, shape=[None, feature.max_length])
    return {key: with_domain(padded, size)}


def _learn_pieces(vocabulary: Vocabulary) -> Learn:
    size, min_count = vocabulary.top_k or 1, vocabulary.min_count
    return Learn(partial(learn_pieces, size=size, min_count=min_count), MOST_WORDS)


def _longest_piece(vocabulary: Vocabulary) -> int:
    given = given_tokens(vocabulary)
    return LONGEST_PIECE if given is None else max(len(piece.removeprefix(CONTINUES)) for piece in given)


def _tokens(name: str, feature: TextFeature, columns: Columns) -> tf.SparseTensor:
    """Returns the tokens of each row; for a list of texts, the tokens of one text after the other."""
    column = feature.column or name
    if feature.list is None:
        return tokenize(columns.string(column).values, feature)
    lists = columns.elements(column, numbers=False)
    kept = select_kept(used_lengths(lists), feature.list)
    of_texts = tf.RaggedTensor.from_sparse(tokenize(gather_kept(lists, kept), feature))
    return kept.ragged(of_texts).merge_dims(1, 2).to_sparse()


def tokenize(texts: tf.Tensor, feature: TextFeature) -> tf.SparseTensor:
    """Splits text into tokens and joins tokens to n-grams: string [batch] to string [batch, (tokens)].

    N-grams are ordered by the position of their first token, then from short to long. An empty text has no tokens.
    Words are not yet split into subwords here.
    """
    if feature.lowercase:
        texts = tf.strings.lower(texts, encoding="utf-8")
    if feature.strip_punctuation:
        texts = tf.strings.regex_replace(texts, _PUNCTUATION, " ")
    rows = _split(texts, feature).to_sparse()
    return rows if feature.ngrams == (1, 1) else tft.ngrams(rows, feature.ngrams, " ")


def _split(texts: tf.Tensor, feature: TextFeature) -> tf.RaggedTensor:
    if feature.pattern is not None:
        separated = tf.strings.regex_replace(texts, feature.pattern, _SEPARATOR)
        return present_tokens(tf.strings.split(separated, _SEPARATOR))
    if feature.tokenize == "characters":
        return tf.strings.unicode_split(texts, "UTF-8")
    if feature.tokenize in ("words", "subwords"):
        texts = tf.strings.regex_replace(texts, _WITHOUT_BLANKS, r" \1 ")
    if feature.tokenize == "subwords":
        texts = split_long_words(texts)
    return tf.strings.split(texts)


def _with_domain(rows: tf.SparseTensor, size: tf.Tensor) -> tf.SparseTensor:
    return tf.SparseTensor(rows.indices, with_domain(rows.values, size), rows.dense_shape)
