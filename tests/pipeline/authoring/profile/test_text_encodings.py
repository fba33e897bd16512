"""The encoding of a text is that which tells the label on rows not fitted: texts made so that the answer is known."""

from itertools import product

import numpy as np
import pytest

from fullpass.pipeline.authoring.profile.strength import Target
from fullpass.pipeline.authoring.profile.text_encodings import measure_text, split_by
from tests.pipeline.authoring.tables import column_of

pytestmark = pytest.mark.integration

ROWS = 1200
WORDS = np.array([f"word{i}" for i in range(200)])


def texts_and_labels(kind, random):
    """Returns texts whose label, 0 or 1, follows from a word, from the order of two, from the end of words, or from
    the last letters of words together with the first of the next."""
    y = random.integers(0, 2, ROWS)
    others = [list(random.choice(WORDS, 6)) for _ in range(ROWS)]
    if kind == "words":
        parts = [[*other, "good" if label else "bad"] for other, label in zip(others, y, strict=True)]
    elif kind == "words and pairs":
        both = (["good", "bad"], ["bad", "good"])
        parts = [[*other, *both[label]] for other, label in zip(others, y, strict=True)]
    elif kind == "characters":
        first = random.integers(0, 2, (ROWS, 7))
        last = (np.roll(first, -1, axis=1) + y[:, np.newaxis]) % 2
        middle = ["".join(random.choice(list("klmnp"), 5)) for _ in range(first.size)]
        parts = np.char.add(np.array(["b", "c"])[first], np.char.add(np.reshape(middle, first.shape), ""))
        parts = np.char.add(parts, np.array(["d", "f"])[last])
    else:
        stems = ["".join(random.choice(list("bcdfglmn"), 7)) for _ in range(ROWS)]
        parts = [[*o, stem + ("ous" if label else "ish")] for o, stem, label in zip(others, stems, y, strict=True)]
    return [" ".join(row) for row in parts], y.astype(float)


def measured(texts, y, task="binary"):
    return measure_text(column_of("t", texts), Target(task, y))


@pytest.mark.parametrize("kind", ["words", "words and pairs", "parts of words", "characters"])
def test_what_tells_the_label_is_chosen(kind):
    found = measured(*texts_and_labels(kind, np.random.default_rng(1)))
    assert found.chosen.name == kind
    by_name = dict(zip((one.name for one in found.candidates), (s.value for s in found.strengths), strict=True))
    assert by_name[kind] > 0.95 and found.shown.count("0.") + found.shown.count("1.000") == 5
    assert found.rows == ROWS - int(0.6 * ROWS)
    if kind != "words":
        assert by_name["words"] < 0.6  # a bag of words holds nothing of it


def test_pieces_of_compound_words_are_chosen():
    """The first and the last letter of a part tell the label together; no word and no run of four letters has both."""
    random = np.random.default_rng(6)
    parts = [
        [a + "rens" + b for (i, a), (j, b) in product(enumerate("bdfgkl"), repeat=2) if (i + j) % 2 == y]
        for y in (0, 1)
    ]
    y = random.integers(0, 2, ROWS)
    texts = [" ".join("".join(random.choice(parts[label], 5)) for _ in range(2)) for label in y]
    found = measured(texts, y.astype(float))
    by_name = dict(zip((one.name for one in found.candidates), (s.value for s in found.strengths), strict=True))
    assert found.chosen.fields == {"tokenize": "subwords", "output": "tf_idf"}, found.shown
    assert by_name["pieces of words"] > 0.95 and by_name["words"] < 0.6 and by_name["characters"] < 0.6


def test_words_are_split_by_the_longest_piece_from_the_beginning():
    split = split_by(frozenset(["un", "##happ", "##y", "happ", "##i", "##ily", "h", "##l"]))
    assert [split(word) for word in ("unhappy", "happily", "happi", "zun", "hill")] == [
        "un ##happ ##y", "happ ##ily", "happ ##i", "z ##u ##n", "h ##i ##l ##l",
    ]  # fmt: skip


def test_a_number_and_several_classes():
    texts, y = texts_and_labels("words and pairs", np.random.default_rng(2))
    noise = np.random.default_rng(3).normal(0, 0.1, ROWS)
    of_number, of_classes = measured(texts, y + noise, "regression"), measured(texts, y, "multiclass")
    assert "words" not in {of_number.chosen.name, of_classes.chosen.name}
    assert "R² 0.9" in of_number.shown and "accuracy" in of_classes.shown


def test_nothing_is_measured_where_rows_do_not_tell():
    texts, y = texts_and_labels("words", np.random.default_rng(4))
    assert measured(texts[:200], y[:200]) is None  # few rows
    assert measured(texts, (np.arange(ROWS) == 3).astype(float)) is None  # one row of a class
    assert measured(texts, np.ones(ROWS), "regression") is None
    assert measured([*texts[:100]] * 12, np.tile(y[:100], 12)) is None  # the same texts again and again
    unrelated = measured(texts, np.random.default_rng(5).integers(0, 2, ROWS).astype(float))
    assert unrelated.chosen.name == "words"
