"""Chooses the encoding of a text for its label: fits a linear model per encoding and compares them on held-out rows.

The linear model is a ridge regression on hashed n-grams, solved in its dual form with the Gram matrix of the rows. Its
time depends neither on the number of n-grams nor on the number of classes.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import linalg

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile, is_without_blanks, letters_apart
from fullpass.pipeline.authoring.profile.strength import Strength, Target, auc, within_usual
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.apply.learn_subwords import CONTINUES, LONGEST_PIECE, learn_pieces
from fullpass.preprocessing.features.feature import TextFeature
from fullpass.preprocessing.features.label import Task

_MOST_ROWS, _FEWEST_ROWS, _FEWEST_OF_CLASS = 5_000, 300, 20
_MOST_CHARACTERS, _LONGEST = 2_000_000, 1_000
_FITTED = 0.6
_HASHED = 1 << 18
_RIDGE = 1.0
_BEYOND_CHANCE, _LEAST_GAIN = 2.0, 0.005
_OTHER_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class TextEncoding:
    """A way to encode a text: a name of one to three words, a phrase, and the fields of the feature in the YAML."""

    name: str
    what: str
    fields: Mapping[str, Any]

    @property
    def feature(self) -> TextFeature:
        """The feature."""
        return TextFeature.model_validate({"type": "text", **self.fields})

    @property
    def is_weighted(self) -> bool:
        """Whether rare n-grams have a larger weight."""
        return self.feature.output == "tf_idf"


@dataclass(frozen=True)
class MeasuredText:
    """The best encoding of a text, and the strengths of all candidates on a number of held-out rows."""

    chosen: TextEncoding
    candidates: Sequence[TextEncoding]
    strengths: Sequence[Strength]
    rows: int

    @property
    def shown(self) -> str:
        """The measurements as text for people."""
        told = {one.name: strength.shown.split() for one, strength in zip(self.candidates, self.strengths, strict=True)}
        metric, value = told.pop(self.chosen.name)
        others = ", ".join(f"{name} {number}" for name, (_, number) in told.items())
        return f"{metric} {value} of a linear model on {self.rows:,} held-out rows; {others}"


_WEIGHTED, _RARE = {"output": "tf_idf"}, "rare ones count more"
_LETTERS: dict[str, Any] = {"tokenize": "words", "ngrams": [1, 2]}
_RUNS = {"tokenize": "characters", "ngrams": [1, 4], **_WEIGHTED}
_PARTS = {"tokenize": "word_characters", "ngrams": [2, 4], **_WEIGHTED}
_ANALYZERS = {"characters": "char", "word_characters": "char_wb"}
_OF_WORDS = (
    TextEncoding("words", "a bag of its words", {}),
    TextEncoding("words and pairs", f"its words and pairs of them, {_RARE}", {"ngrams": [1, 2], **_WEIGHTED}),
    TextEncoding("parts of words", f"runs of two to four characters within its words, {_RARE}", _PARTS),
    TextEncoding("characters", f"runs of up to four characters, {_RARE}", _RUNS),
    TextEncoding("pieces of words", f"pieces of its words, {_RARE}", {"tokenize": "subwords", **_WEIGHTED}),
)
_OF_LETTERS = (
    TextEncoding("letters and pairs", "its letters and pairs of them", _LETTERS),
    TextEncoding("the same, weighted", f"its letters and pairs of them, {_RARE}", {**_LETTERS, **_WEIGHTED}),
    TextEncoding(
        "up to three letters", f"up to three letters in a row, {_RARE}", {**_LETTERS, "ngrams": [1, 3], **_WEIGHTED}
    ),
)


def text_encodings(column: ColumnProfile) -> tuple[TextEncoding, ...]:
    """Returns the candidate encodings of a text; the first is the simplest and the default.

    In scripts without blanks, each letter is a word, and letters have no pieces.
    """
    return _OF_LETTERS if is_without_blanks(column.values) else _OF_WORDS


@rule("measured text encoding")
def measure_text(column: ColumnProfile, target: Target) -> MeasuredText | None:
    """Returns the encoding of a text that predicts the label best; None if there are too few rows to decide.

    An encoding replaces the default only if it is better beyond chance, and by 0.005 of AUC, R² or corrected errors. Up
    to 5,000 distinct texts and 2 million characters are measured, which takes a few seconds. Encodings that read words
    in order are not measured, because they need a training.
    """
    rows, y = _rows(column, target)
    fitted = int(_FITTED * len(rows))
    if target.task == "multilabel" or len(np.unique(y[fitted:])) < 2:
        return None
    texts = [_cleaned(column.values.texts[code]) for code in column.values.codes[rows]]
    outcomes, classes = _outcomes(y, target.task), np.unique(y)
    candidates = text_encodings(column)
    errors, strengths = [], []
    for candidate in candidates:
        feature = candidate.feature
        tokens = _in_pieces(texts, fitted, feature) if feature.tokenize == "subwords" else texts
        scores = _scores(tokens, feature, outcomes[:fitted])
        errors.append(((outcomes[fitted:] - scores) ** 2).sum(axis=1))
        strengths.append(_strength(scores, y[fitted:], classes, target.task))
    return MeasuredText(candidates[_best(errors, strengths)], candidates, strengths, len(rows) - fitted)


def _rows(column: ColumnProfile, target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows with distinct texts and a label, in random order, and their labels: int [rows], float [rows]."""
    none = np.zeros(0, dtype=np.int64), np.zeros(0)
    known = np.flatnonzero((column.values.codes >= 0) & ~np.isnan(target.y))
    _, first = np.unique(column.values.codes[known], return_index=True)
    shuffled = np.random.default_rng(len(known)).permutation(known[first])[:_MOST_ROWS]
    lengths = np.array([min(len(column.values.texts[code]), _LONGEST) for code in column.values.codes[shuffled]])
    rows = shuffled[np.cumsum(lengths) <= _MOST_CHARACTERS]
    y = target.y[rows]
    if len(rows) < _FEWEST_ROWS:
        return none
    if target.task == "regression":
        return (rows, within_usual(y)) if np.ptp(y) > 0 else none
    sizes = np.sort(np.unique(y, return_counts=True)[1])
    return (rows, y) if len(sizes) > 1 and sizes[-2] >= _FEWEST_OF_CLASS else none


def _cleaned(text: str) -> str:
    """Returns a text as the transform cleans it: lower case, no punctuation, blanks between letters of some scripts."""
    return letters_apart(_OTHER_SIGNS.sub(" ", text[:_LONGEST].lower())).strip()


def _in_pieces(texts: Sequence[str], fitted: int, feature: TextFeature) -> list[str]:
    """Returns texts with blanks between the pieces of their words, learned from the first `fitted` texts."""
    vocabulary = feature.vocabulary
    counts = sorted(Counter(word for text in texts[:fitted] for word in text.split()).items())
    words = [(count, word.encode()) for word, count in counts]
    pieces = learn_pieces(words, size=vocabulary.top_k or 1, min_count=vocabulary.min_count)
    split = split_by(frozenset(piece.decode() for piece in pieces))
    return [" ".join(map(split, text.split())) for text in texts]


def split_by(pieces: frozenset[str]) -> Callable[[str], str]:
    """Returns a function that splits a word greedily into the longest matching pieces, from left to right.

    Example:
        >>> split_by(frozenset(["un", "##happy"]))("unhappy")
        'un ##happy'
    """

    @cache
    def split(word: str) -> str:
        found, start = [], 0
        while start < len(word):
            mark = CONTINUES if start else ""
            ends = range(min(len(word), start + LONGEST_PIECE), start, -1)
            end = next((end for end in ends if mark + word[start:end] in pieces), start + 1)
            found.append(mark + word[start:end])
            start = end
        return " ".join(found)

    return split


def _outcomes(y: np.ndarray, task: Task) -> np.ndarray:
    """Returns the labels as regression targets: [rows, 1], or [rows, classes] of 0 and 1."""
    return np.equal(y[:, np.newaxis], np.unique(y)).astype(np.float64) if task == "multiclass" else y[:, np.newaxis]


def _scores(texts: Sequence[str], feature: TextFeature, fitted: np.ndarray) -> np.ndarray:
    """Returns the predictions for the rows after the fitted ones, whose targets are `fitted`, [fitted, outcomes]."""
    from sklearn.feature_extraction import text  # takes half a second, which only data with texts needs

    is_weighted = feature.output == "tf_idf"
    words: dict[str, Any] = {"tokenizer": str.split, "token_pattern": None}
    hashing = text.HashingVectorizer(
        **({"analyzer": _ANALYZERS[feature.tokenize]} if feature.tokenize in _ANALYZERS else words),
        lowercase=False,
        ngram_range=feature.ngrams,
        n_features=_HASHED,
        alternate_sign=False,
        binary=not is_weighted,
        norm=None,
    )
    counts, split = hashing.transform(texts), len(fitted)
    weights = text.TfidfTransformer(use_idf=is_weighted).fit(counts[:split])
    known, new = weights.transform(counts[:split]), weights.transform(counts[split:])
    products = (known @ known.T).toarray()
    products.flat[:: split + 1] += _RIDGE
    mean = fitted.mean(axis=0)
    return mean + (new @ known.T) @ linalg.solve(products, fitted - mean, assume_a="pos", overwrite_a=True)


def _strength(scores: np.ndarray, y: np.ndarray, classes: np.ndarray, task: Task) -> Strength:
    if task == "regression":
        r2 = max(0.0, 1 - float(((y - scores[:, 0]) ** 2).mean() / y.var()))
        return Strength(task, r2, f"R² {r2:.2f}")
    if task == "binary":
        area = auc(scores[:, 0], y)
        return Strength(task, area, f"AUC {area:.3f}")
    accuracy = float((classes[scores.argmax(axis=1)] == y).mean())
    majority = float(np.unique(y, return_counts=True)[1].max() / len(y))
    return Strength(task, max(0.0, (accuracy - majority) / (1 - majority)), f"accuracy {accuracy:.3f}")


def _best(errors: Sequence[np.ndarray], strengths: Sequence[Strength]) -> int:
    """Returns the index of the best candidate; a later one must beat an earlier one beyond chance and by a margin."""
    best = 0
    for index, strength in enumerate(strengths):
        gain = errors[best] - errors[index]
        sure = gain.mean() > _BEYOND_CHANCE * gain.std() / len(gain) ** 0.5
        if sure and strength.value >= strengths[best].value + _LEAST_GAIN:
            best = index
    return best
