"""One rule for every token: in columns of Arrow, in the graph, in texts of the YAML, and in what the YAML declares."""

import pyarrow as pa
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.vocabulary_file import category_tokens
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.token_spelling import as_token, distinct_tokens
from fullpass.preprocessing.values.arrow_text import as_tokens
from fullpass.preprocessing.values.convert import convert

SPELLINGS = {
    "3067.0": "3067",
    "3067": "3067",
    "-12.00": "-12",
    "9007199254740993.0": "9007199254740993",  # 2**53 + 1 is no float64
    "007": "007",
    "007.0": "007",
    "1e3": "1e3",
    "+5.0": "+5.0",
    "1.50": "1.50",
    "1.0.0": "1.0.0",
    "1.": "1.",
    ".0": ".0",
    "a1.0": "a1.0",
    "1.0\n": "1.0\n",
    "٣.0": "٣.0",
}


def test_texts_of_the_yaml_and_columns_of_arrow_follow_one_rule():
    wanted = list(SPELLINGS.values())
    assert [as_token(text) for text in SPELLINGS] == wanted
    for kind in (pa.string(), pa.large_string()):
        assert as_tokens(pa.array(SPELLINGS, kind)).to_pylist() == wanted
    for kind in (pa.binary(), pa.large_binary()):
        cells = pa.array([*(text.encode() for text in SPELLINGS), b"\xff1.0", None], kind)
        assert as_tokens(cells).to_pylist() == [*(text.encode() for text in wanted), b"\xff1.0", None]


@pytest.mark.integration
def test_the_graph_follows_the_same_rule():
    import tensorflow as tf

    from fullpass.preprocessing.expressions.tensor_ops import token_tensor as in_the_graph

    assert [text.decode() for text in in_the_graph(list(SPELLINGS)).numpy()] == list(SPELLINGS.values())
    assert in_the_graph(tf.constant([b"\xff1.0"])).numpy().tolist() == [b"\xff1.0"]


def test_two_spellings_of_one_token_are_not_two_tokens():
    assert distinct_tokens(["1.0", "2"]) == ("1", "2")
    with pytest.raises(ValueError, match="'1' and '1.0' are one token"):
        distinct_tokens(["1", "1.0"])


@pytest.mark.parametrize(
    ("cells", "missing", "expected"),
    [
        (pa.array(["7.0", "7", "x", "-99.0"]), ["-99"], [b"7", b"7", b"x", None]),
        (pa.array([b"7.0", b"-99", b"\xff"]), ["-99.0"], [b"7", None, b"\xff"]),
        (pa.array([7.0, 7.5, None]), [], [b"7", b"7.5", None]),
        (pa.array([2**53 + 1]), [], [b"9007199254740993"]),
        (pa.array([["7.0"], [], ["7"]]), [], [b"7", None, b"7"]),
        (pa.array(["7.0", "7"]).dictionary_encode(), [], [b"7", b"7"]),
    ],
    ids=["text", "bytes", "floats", "ints", "lists of one", "dictionary"],
)
def test_records_hold_tokens(cells, missing, expected):
    assert (
        convert(cells, RawColumn("c", "string", token=True), strip=True, missing=missing).flat.to_pylist() == expected
    )


def test_elements_of_lists_are_tokens():
    column = RawColumn("c", "string", many=True, token=True)
    assert convert(pa.array([["7.0", "7"], ["x"]]), column, strip=True, missing=()).flat.to_pylist() == [
        [b"7", b"7"],
        [b"x"],
    ]
    cells = convert(
        pa.array(["7.0|7"]), RawColumn("c", "string", many=True, separator="|", token=True), strip=True, missing=()
    )
    assert cells.flat.to_pylist() == [[b"7", b"7"]]


def test_what_reads_a_column_decides_whether_it_holds_tokens():
    """Text, dates and columns that only expressions read stay as they are written."""
    config = PreprocessingConfig.model_validate(
        {
            "features": {
                "c": "category",
                "both": "category",
                "words": {"type": "text", "column": "both"},
                "n": {"type": "count", "column": "counted"},
                "b": "boolean",
                "t": "text",
                "d": "date",
                "x": {"type": "number", "transforms": [{"z_score": {"key": "k"}}]},
                "tags": {"type": "category", "list": True},
            },
            "derive": {"z": "length(e)"},
            "types": {"e": "string"},
            "label": {"name": "y", "task": "multiclass"},
            "slices": ["s"],
        }
    )
    tokens = {name for name, column in raw_columns(config).items() if column.token}
    assert tokens == {"c", "both", "counted", "b", "k", "y", "s", "tags"}


def of(label=None, **feature):
    features = {"c": {"type": "category", **feature}}
    label = {"name": "y", "task": "multiclass", **(label or {})}
    return PreprocessingConfig.model_validate({"features": features, "label": label})


def test_the_yaml_may_use_either_spelling():
    assert of(vocabulary={"tokens": ["1.0", "2"]}).features["c"].vocabulary.tokens == ("1", "2")
    assert of({"classes": ["1.0", "2.0"]}).label.classes == ("1", "2")
    binary = of({"task": "binary", "positive": "2.0", "class_weights": {"2.0": 3.0}}).label
    assert (binary.positive, binary.class_weights) == ("2", {"2": 3.0})
    for wrong in ({"vocabulary": {"tokens": ["1", "1.0"]}}, {"label": {"classes": ["1", "1.0"]}}):
        with pytest.raises(ValueError, match="'1' and '1.0' are one token"):
            of(**wrong)


def test_a_vocabulary_file_may_use_either_spelling():
    assert category_tokens("v.txt", ("1.0", "2")) == ("1", "2")
    with pytest.raises(UserError, match="v.txt': '1.0' and '1' are one token"):
        category_tokens("v.txt", ("1.0", "1"))
