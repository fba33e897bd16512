"""The search of representations of texts: what characters tell is found, and words are kept where they tell all."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fullpass.pipeline.authoring.init.init import init
from fullpass.pipeline.authoring.init.search.judge import FoldJudge
from fullpass.pipeline.authoring.init.search.representations import SampledColumns
from fullpass.pipeline.authoring.init.search.texts import characters_beside, vectors
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.loading.load import load
from tests.pipeline.authoring.tables import column_of
from tests.pipeline.authoring.tables import write_csv as write

ROWS = 2_400


def searched(tmp_path, columns, *, seconds=10.0):
    """Returns the file that `init` wrote and what it said before the search."""
    said: list[str] = []
    data = write(tmp_path / "rows.csv", columns)
    file = str(tmp_path / "pipeline.yaml")
    return init(str(data), output=file, label="y", search_seconds=seconds, say=said.append), said


def texts_of(written):
    return {name: f.model_dump(exclude_defaults=True) for name, f in load(written.file).config.features.items()}


def words(random, size, count):
    """Returns different words of six random letters."""
    letters = random.integers(97, 123, (size * count, 6)).astype(np.uint8)
    return np.array([bytes(word).decode() for word in letters]).reshape(size, count)


def test_what_characters_tell_is_found_beside_the_words(tmp_path, random):
    """No word occurs twice, and one of them has the stem of its class: words alone tell nothing."""
    y = random.integers(0, 2, ROWS)
    texts = words(random, ROWS, 6)
    texts[np.arange(ROWS), random.integers(0, 6, ROWS)] = [f"{'qx' if one else 'zv'}{i}kj" for i, one in enumerate(y)]
    written, said = searched(tmp_path, {"note": [" ".join(row) for row in texts], "y": np.where(y, "yes", "no")})
    features = texts_of(written)
    assert features["note_characters"] == {
        "type": "text",
        "column": "note",
        "tokenize": "word_characters",
        "ngrams": (2, 4),
        "output": "tf_idf",
    }
    assert set(features) == {"note", "note_characters"}
    gain = re.search(r"characters of words: \+(0\.\d+) ± 0\.\d+ AUC in five folds", written.text)
    assert gain is not None and float(gain[1]) > 0.3
    assert said == [
        "trying representations on 2,400 rows, for at most about 10 s of processor; --search-seconds 0 skips it"
    ]


@pytest.mark.parametrize("seconds", [10.0, 0.0])
def test_words_that_tell_all_are_kept(tmp_path, random, seconds):
    y = random.integers(0, 2, ROWS)
    fillers = words(random, 1, 300)[0]
    texts = random.choice(fillers, (ROWS, 8))
    texts[:, 3] = np.where(y, "refund", "thanks")
    written, said = searched(
        tmp_path, {"note": [" ".join(row) for row in texts], "y": np.where(y, "yes", "no")}, seconds=seconds
    )
    assert set(texts_of(written)) == {"note"}
    told = [line for line in written.summary if line.startswith("tried, does not pay: ")]
    assert len(said) == len(told) == (seconds > 0)


def test_characters_beside_numbers_are_judged_beside_both(tmp_path, random):
    """Three classes by the stem of a word and by a number, of which each alone tells a part."""
    y = random.integers(0, 3, ROWS)
    texts = words(random, ROWS, 6)
    stems = np.where(random.random(ROWS) < 0.6, y, random.integers(0, 3, ROWS))
    texts[np.arange(ROWS), 2] = [f"{('qx', 'zv', 'jw')[one]}{i}kj" for i, one in enumerate(stems)]
    columns = {"note": [" ".join(row) for row in texts], "size": (y + random.normal(size=ROWS)).round(3)}
    written, _ = searched(tmp_path, {**columns, "y": np.array(["a", "b", "c"])[y]})
    features = texts_of(written)
    assert set(features) == {"note", "size", "note_characters"}
    assert features["note_characters"]["tokenize"] == "word_characters"
    gain = re.search(r"1 text by characters of words: \+(0\.\d+) ± 0\.\d+ log likelihood in five folds", written.text)
    assert gain is not None and float(gain[1]) > 0.2


def test_a_class_of_one_row_has_an_answer_in_all_folds():
    """The row of class 2 is in the first fold, whose model knows two classes, as the others know three."""
    y, folds = np.arange(50) % 2 * 1.0, np.arange(50) % 5
    y[0] = 2
    column = replace(column_of("note", ["good day" if one == 1 else "bad night" for one in y]), kind="text")
    judge = FoldJudge(y, folds, "multiclass", 3)
    encoding, kind = characters_beside(SampledColumns([column], np.arange(50), []), [YamlLine("note", "text")], judge)
    assert encoding.values.shape == (50, 3) and judge.width([encoding]) == 3
    assert (encoding.values[1:, :2].argmax(axis=1) == y[1:]).all()
    assert (encoding.values[folds == 0, 2] == -1).all()
    [tried] = kind.propose(SampledColumns([column], np.arange(50), []))
    assert tried.encoding.values.shape == (50, 3)


def test_too_little_time_is_said(tmp_path, random):
    y = np.arange(ROWS) % 2
    columns = {"note": [" ".join(row) for row in words(random, ROWS, 8)], "y": np.where(y, "yes", "no")}
    written, said = searched(tmp_path, columns, seconds=0.01)
    assert not said
    assert any("representations of texts: there is time for" in line for line in written.summary)


def test_tokens_are_those_of_the_feature():
    texts = ["Go, go now", "now!"] * 2
    assert vectors(texts, "text").toarray().tolist() == pytest.approx(
        np.array([[0.5**0.5, 0.5**0.5], [0, 1]] * 2), abs=1e-12
    )
    pairs = {"type": "text", "tokenize": "word_characters", "ngrams": [2, 2]}
    # " n", "no", "ow", "w " of each text, and " g", "go", "o " of the first
    assert [row.nnz for row in vectors(texts, pairs)] == [7, 4, 7, 4]
    assert [row.nnz for row in vectors(["天气 好", "天"] * 2, {"type": "text", "tokenize": "words"})] == [3, 1, 3, 1]
