"""Splits words into the pieces of a vocabulary by greedy longest match, with TensorFlow's own operations.

The longest piece of the vocabulary is taken from the beginning of a word, then the longest one from there on, and so
on. Pieces that continue a word begin with `##`. A character that no piece begins with is a piece of its own, outside
the vocabulary. No loop over characters is needed: the longest piece starting at each character is looked up, and
pointer doubling finds the characters that are reached from the first one.
Source: WordPiece (Wu et al., Google's Neural Machine Translation System, 2016).
"""

import tensorflow as tf

from fullpass.preprocessing.apply.learn_subwords import CONTINUES
from fullpass.preprocessing.apply.vocabulary import Table

LONGEST_WORD = 64
"""In characters; longer words are cut into several."""
_STEPS = 6  # A word has at most 2 ** 6 pieces.
_CUT = r"([^\s]{64})"


def split_long_words(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts, string [n], as UTF-8 without runs of non-blank characters longer than `LONGEST_WORD`."""
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(valid, _CUT, r"\1 ")


def split_words(words: tf.RaggedTensor, table: Table, longest: int) -> tf.RaggedTensor:
    """Returns the pieces of the words of each row, one word after the other: string [batch, (pieces)].

    Args:
        words: string [batch, (words)]; not empty and not longer than `LONGEST_WORD`.
        table: The table of the pieces.
        longest: Length in characters of the longest piece, without continuation marks.
    """
    distinct, of_word = tf.unique(words.flat_values)
    pieces = tf.gather(_pieces(distinct, table, longest), of_word)
    return words.with_flat_values(pieces).merge_dims(1, 2)


def _pieces(words: tf.Tensor, table: Table, longest: int) -> tf.RaggedTensor:
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
    slots, _ = table(candidates)
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
