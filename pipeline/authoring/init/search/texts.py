"""Searches representations of the texts of a classification: words, pairs, characters.

A linear model, as `init` proposes it for texts alone, predicts the rows of each fold from the others. Beside other
columns, boosters read what it says.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fullpass.pipeline.authoring.init.propose_features import WEIGHTED_PAIRS
from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.init.search.judge import FOLDS, FoldJudge, areas, gain_of
from fullpass.pipeline.authoring.init.search.representations import FEATURES, Kind, SampledColumns, TriedFeature
from fullpass.pipeline.authoring.init.search.result import SearchResult, announced
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import WITHOUT_BLANKS
from fullpass.preprocessing.features.id_features import TextFeature

OF_TEXTS = ("binary", "multiclass")
"""Tasks whose texts linear models judge."""
_PRICE = 0.002
"""The gain that more tokens in each request must bring at least: an AUC or a share of the rows."""
_PRICE_BESIDE = 50
"""The features that characters must be worth beside other columns: a training takes half as long again."""
_TOKENS_OF_LETTER = 2.0
"""Tokens of a letter of the dearest kind: nearly each letter begins one of two, three and four characters."""
_COUNTED, _LEARNED = 1e-6, 2.5e-8
"""Processor seconds to count a token, and to learn from it in a fold of a class, on a processor of 2024."""
_REGULARIZED = 0.5
"""Inverse strength of the penalty of weights."""
_FEWEST_ROWS = 500
"""Fewer rows tell no representation from another."""
CHARACTERS = {"tokenize": "word_characters", "ngrams": [2, 4], "output": "tf_idf"}


@dataclass(frozen=True)
class TextKind:
    """A kind of representation of a text.

    Attributes:
        name: What it is called.
        value: Its keys in the YAML.
        beside: Whether it is a feature of its own beside that of the words; else it replaces that one.
    """

    name: str
    value: Mapping[str, Any]
    beside: bool = False


KINDS: Sequence[TextKind] = (
    TextKind("words and pairs of them, of which rare ones count more", WEIGHTED_PAIRS),
    TextKind(
        "characters of words",
        CHARACTERS,
        beside=True,
    ),
)
"""In the order in which they are tried, each beside those that paid."""


def search_texts(
    columns: SampledColumns, lines: Sequence[YamlLine], judge: FoldJudge, seconds: float, say: Callable[[str], object]
) -> SearchResult:
    """Returns the representations of texts that pay.

    Args:
        lines: The features so far; each is of one of the columns.
        judge: Of the used rows; its boosters are not asked.
        seconds: Processor seconds, at most about; fewer rows are judged if all take longer.
        say: Prints a line for the user, before the work begins.
    """
    share = seconds / seconds_of_texts(columns, lines, judge, len(KINDS) + 1)
    rows = int(min(share, 1.0) * len(judge.y))
    if rows < _FEWEST_ROWS:
        return SearchResult(told=[f"representations of texts: there is time for {rows:,} rows only"])
    say(announced(rows, seconds))
    kept = np.sort(np.random.default_rng(1).choice(len(judge.y), rows, replace=False))
    columns, judge = replace(columns, used=columns.used[kept]), replace(judge, y=judge.y[kept], folds=judge.folds[kept])
    texts = {line.name: _texts(columns, line) for line in lines}
    found = SearchResult()
    known = {line.name: vectors(texts[line.name], line.value) for line in lines}
    best = _scores(list(known.values()), judge)
    metric = "AUC" if judge.task == "binary" else "accuracy"
    for line in lines:
        for kind in KINDS:
            value = {"type": "text", **(line.value if isinstance(line.value, dict) else {}), **kind.value}
            if value == line.value:
                continue
            key = f"{line.name} {kind.name}" if kind.beside else line.name
            tried = {**known, key: vectors(texts[line.name], value)}
            after = _scores(list(tried.values()), judge)
            gain = gain_of(after - best, metric)
            why = f"{kind.name}: {gain.text}"
            if not gain.pays(_PRICE):
                found.told.append(why)
                continue
            best, known = after, tried
            if kind.beside:
                column = {"column": _column_of(line)}
                found.features.append(replace(columns.line(f"{line.name}_characters", {**value, **column}), why=why))
            else:
                found.replaced[line.name] = replace(line, value=value, why=why)
    return found


def characters_beside(columns: SampledColumns, lines: Sequence[YamlLine], judge: FoldJudge) -> tuple[Encoding, Kind]:
    """Returns what boosters read of texts, and the kind of their characters, which are tried beside their words.

    Args:
        lines: The texts so far.
    """
    known = [vectors(_texts(columns, line), line.value) for line in lines]

    def propose(_: SampledColumns) -> Iterator[TriedFeature]:
        for line in lines:
            value = {"type": "text", "column": _column_of(line), **CHARACTERS}
            both = [*known, vectors(_texts(columns, line), value)]
            yield TriedFeature(columns.line(f"{line.name}_characters", value), Encoding(_answers(both, judge)))

    names = ("text by characters of words", "texts by characters of words")
    return Encoding(_answers(known, judge)), Kind(names, propose, sizes=(1, FEATURES), price=_PRICE_BESIDE)


def texts_of(columns: SampledColumns, lines: Sequence[YamlLine]) -> list[YamlLine]:
    """Returns the features that are texts of the table."""
    texts = {column.name for column in columns.profiles if column.kind == "text"}
    return [line for line in lines if _column_of(line) in texts]


def seconds_of_texts(columns: SampledColumns, lines: Sequence[YamlLine], judge: FoldJudge, kinds: int) -> float:
    """Returns about how many processor seconds so many representations of texts take."""
    letters = sum(len(text) for line in lines for text in _texts(columns, line))
    return max(letters, 1) * _TOKENS_OF_LETTER * kinds * (_COUNTED + FOLDS * _LEARNED * judge.classes)


def _column_of(line: YamlLine) -> str:
    return str(line.value.get("column", line.name) if isinstance(line.value, dict) else line.name)


def _texts(columns: SampledColumns, line: YamlLine) -> list[str]:
    [column] = (column for column in columns.profiles if column.name == _column_of(line))
    texts = [*column.values.texts, ""]  # the code -1 is a missing text
    return [texts[code] for code in column.values.codes[columns.used]]


def vectors(texts: Sequence[str], value: Any) -> Any:
    """Returns the weights of the tokens of texts, a sparse matrix float64 [rows, tokens], in rows of length 1.

    Args:
        value: The feature in the YAML.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    feature = TextFeature.model_validate(value if isinstance(value, dict) else {"type": value})
    characters = feature.tokenize == "word_characters"
    counter = CountVectorizer(
        preprocessor=_without_punctuation,
        analyzer="char_wb" if characters else "word",
        token_pattern=None if characters else rf"{WITHOUT_BLANKS.pattern}|\S+?(?=\s|$|{WITHOUT_BLANKS.pattern})",
        ngram_range=feature.ngrams,
        max_features=feature.vocabulary.top_k,
        min_df=feature.vocabulary.min_count,
        binary=feature.output == "bag_of_words",
    )
    try:
        counts = counter.fit_transform(texts)
    except ValueError:  # no token occurs as often as the vocabulary demands
        counts = csr_matrix((len(texts), 1))
    weighted = feature.output == "tf_idf"
    return TfidfTransformer(use_idf=weighted, sublinear_tf=weighted).fit_transform(counts)


def _without_punctuation(text: str) -> str:
    return "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text.lower())


def _scores(matrices: Sequence[Any], judge: FoldJudge) -> np.ndarray:
    """Returns numbers of rows, float64 [rows], with the AUC or the share of right answers as their mean."""
    answers = _answers(matrices, judge)
    if judge.task == "multiclass":
        return (answers.argmax(axis=1) == judge.y) * 1.0
    scores = np.empty(len(judge.y))
    for fold in range(FOLDS):
        judged = judge.folds == fold
        scores[judged] = areas(judge.y[judged], answers[judged, 0])
    return scores


def _answers(matrices: Sequence[Any], judge: FoldJudge) -> np.ndarray:
    """Returns the sums of weights of linear models that did not learn from a row, float64 [rows, 1 or classes]."""
    from scipy.sparse import hstack
    from sklearn.svm import LinearSVC

    table = hstack(matrices).tocsr()
    answers = np.full(judge.targets.shape, -1.0)  # that of a class that no row of the other folds has
    for fold in range(FOLDS):
        judged = judge.folds == fold
        model = LinearSVC(C=_REGULARIZED, tol=0.01, random_state=0).fit(table[~judged], judge.y[~judged])
        sums = model.decision_function(table[judged]).reshape(judged.sum(), -1)
        if judge.task == "multiclass":
            sums = np.hstack([-sums, sums]) if sums.shape[1] == 1 else sums
            answers[np.ix_(judged, model.classes_.astype(int))] = sums
        else:
            answers[judged] = sums
    return answers
