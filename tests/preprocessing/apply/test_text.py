"""Text as ids and weights."""

import math

import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import CountVectorizer

from fullpass.preprocessing.apply.text import tokenize
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.features.feature import TextFeature


def text(**fields):
    return {"type": "text", "column": "t", "vocabulary": {"tokens": ["the", "cat", "sat", "dog"]}, **fields}


@pytest.mark.integration
def test_outputs_of_text(assert_transform):
    # the: 3, cat: 2, dog: 1, sat: 1. Ids: 0 missing, 1 OOV, the 2, cat 3, sat 4, dog 5 (on a tie the later token
    # first). The other features declare tokens in the same order.
    analysed = assert_transform(
        {
            "ids": text(output="ids"),
            "padded": text(output="ids", max_length=3),
            "bag": text(vocabulary={}),
            "weighted": text(output="tf_idf"),
        },
        analyze={"t": ["The cat sat.", "the dog; the... CAT!", None, ""]},
        apply={"t": ["cat the bird cat", None, "?!", "the bird sat on the dog"]},
        expected={
            "ids_xf": [[3, 2, 1, 3], [], [], [2, 1, 4, 1, 2, 5]],
            "padded_xf": [[3, 2, 1], [0, 0, 0], [0, 0, 0], [2, 1, 4]],
            "bag_xf": [[1, 2, 3], [], [], [1, 2, 4, 5]],
            "weighted_xf": [[1, 2, 3], [], [], [1, 2, 4, 5]],
            # Of 4 train rows, `the` and `cat` occur in 2, `dog` and `sat` in 1, an OOV token in none.
            "weighted.weight_xf": [
                [(1 + math.log(5 / 1)) / 4, (1 + math.log(5 / 3)) / 4, (1 + math.log(5 / 3)) / 2],
                [],
                [],
                [
                    (1 + math.log(5 / 1)) / 3,
                    (1 + math.log(5 / 3)) / 3,
                    (1 + math.log(5 / 2)) / 6,
                    (1 + math.log(5 / 2)) / 6,
                ],
            ],
        },
    )
    assert analysed.vocabulary(vocabulary_name("bag")) == ["the", "cat", "sat", "dog"]
    assert {analysed.size(f"{name}_xf") for name in ("ids", "padded", "bag", "weighted")} == {6}


PIECES = ["##u", "##g", "p", "##n", "h", "##s", "b", "##ug", "##un", "hug", "pun", "hugs", "pug", "bun"]
"""The pieces of the words of HUGS, derived in test_learn_subwords.py. The first has id 2: 0 is missing, 1 unknown."""
HUGS = ["hug pug pun", *["Hugs, hug"] * 5, *["hug! PUG pun"] * 4, *["pun bun"] * 4, None, "", *["pun"] * 3]


@pytest.mark.integration
def test_subwords(assert_transform):
    subwords = {"type": "text", "column": "t", "tokenize": "subwords", "vocabulary": {"top_k": 50}}
    given = {**subwords, "vocabulary": {"tokens": ["hug", "##s", "日"]}}
    # pug ##s, b ##ug ##s; m ##ug with an unknown m; Chinese characters are separate tokens; # is no letter.
    texts = ["Pugs? bugs", "mug", "日本", None, "##"]
    analysed = assert_transform(
        {
            "ids": {**subwords, "output": "ids"},
            "stable": {**subwords, "vocabulary": {"top_k": 50, "stable_ids": True}},
            "given": {**given, "output": "ids"},
        },
        analyze={"t": HUGS},
        apply={"t": texts},
        expected={
            "ids_xf": [[14, 7, 8, 9, 7], [1, 9], [1, 1], [], []],
            "stable_xf": [[7, 8, 9, 14], [1, 9], [1], [], []],
            "given_xf": [[1, 1, 1, 3, 1, 1, 1, 3], [1, 1, 1], [4, 1], [], []],
        },
    )
    assert analysed.vocabulary(vocabulary_name("ids")) == analysed.vocabulary(vocabulary_name("stable")) == PIECES
    assert {analysed.size(f"{name}_xf") for name in ("ids", "stable")} == {len(PIECES) + 2}


@pytest.mark.parametrize(
    ("fields", "texts", "tokens"),
    [
        ({}, ["The cat's  SAT, twice.", "", " \t"], [["the", "cat", "s", "sat", "twice"], [], []]),
        ({"strip_punctuation": False}, ["A b,C d!"], [["a", "b,c", "d!"]]),
        ({"lowercase": False}, ["ÄÖ ñ_2³ 日本"], [["ÄÖ", "ñ", "2³", "日本"]]),
        ({}, ["ÄÖ É"], [["äö", "é"]]),
        ({"tokenize": "characters"}, ["É日 x!", ""], [["é", "日", " ", "x", " "], []]),
        (
            {"tokenize": "words"},
            ["iPhone很好,ok", "東京へ", "สวัสดี"],
            [["iphone", "很", "好", "ok"], ["東", "京", "へ"], ["ส", "วั", "ส", "ดี"]],
        ),
        ({"tokenize": "words", "ngrams": [1, 2]}, ["很好。"], [["很", "很 好", "好"]]),
        ({"tokenize": "word_characters"}, ["Né 日本"], [[" ", "n", "é", " ", " ", "日", " ", " ", "本", " "]]),
        (
            {"tokenize": "word_characters", "ngrams": [2, 3]},
            ["Ab, c", "", "c c"],
            [[" a", " ab", "ab", "ab ", "b ", " c", " c ", "c "], [], [" c", " c ", "c ", " c", " c ", "c "]],
        ),
        ({"tokenize": "words"}, ["Two words, é"], [["two", "words", "é"]]),
        ({"pattern": "[,;]+ *", "strip_punctuation": False}, ["a b,; c,", ",", ""], [["a b", "c"], [], []]),
        ({"ngrams": [1, 2]}, ["a b c", "a", ""], [["a", "a b", "b", "b c", "c"], ["a"], []]),
        ({"ngrams": [2, 3]}, ["a b c", "a"], [["a b", "a b c", "b c"], []]),
    ],
)
def test_tokens(fields, texts, tokens):
    assert tokens_of(texts, **fields) == tokens


def tokens_of(texts, **fields):
    tokenized = tokenize(tf.constant(texts), TextFeature(type="text", **fields))
    return [[token.decode() for token in row] for row in tokenized.in_rows(tokenized.values).to_list()]


def test_runs_within_words_are_those_of_scikit_learn():
    texts = ["where is my card", "i do not have a card", "", "déjà vu x"]
    runs = CountVectorizer(analyzer="char_wb", ngram_range=(2, 4)).build_analyzer()
    found = tokens_of(texts, tokenize="word_characters", ngrams=(2, 4))
    assert list(map(sorted, found)) == [sorted(runs(text)) for text in texts]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ngrams": [1, 2]}, "ngrams: cannot be used with `tokenize: subwords`"),
        ({"pattern": ","}, "pattern: cannot be used"),
        ({"vocabulary": {"coverage": 0.9}}, "Write `top_k: 8000`"),
        ({"vocabulary": {"min_count": 2}}, "needs the number of pieces"),
    ],
)
def test_what_does_not_go_with_subwords(fields, expected):
    with pytest.raises(ValueError, match=expected):
        TextFeature.model_validate({"type": "text", "tokenize": "subwords", **fields})


def test_subwords_learn_8000_pieces_by_default():
    assert TextFeature.model_validate({"type": "text", "tokenize": "subwords"}).vocabulary.top_k == 8000
