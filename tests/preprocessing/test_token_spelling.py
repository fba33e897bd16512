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
    "102,0": "102,0",
    "True": "true",
    "FALSE": "false",
    "tRUE": "tRUE",
    "True ": "True ",
    "T": "T",
    "Falsehood": "Falsehood",
}
UNDER_A_COMMA = {"102,0": "102", "-7,00": "-7", "1.000": "1.000", "1,5": "1,5", "102.0": "102.0", "TRUE": "true"}


def test_texts_of_the_yaml_and_columns_of_arrow_follow_one_rule():
    wanted = list(SPELLINGS.values())
    assert [as_token(text) for text in SPELLINGS] == wanted
    for kind in (pa.string(), pa.large_string()):
        assert as_tokens(pa.array(SPELLINGS, kind)).to_pylist() == wanted
    for kind in (pa.binary(), pa.large_binary()):
        cells = pa.array([*(text.encode() for text in SPELLINGS), b"\xff1.0", None], kind)
        assert as_tokens(cells).to_pylist() == [*(text.encode() for text in wanted), b"\xff1.0", None]
    assert [as_token(text, ",") for text in UNDER_A_COMMA] == [*UNDER_A_COMMA.values()]
    assert as_tokens(pa.array(UNDER_A_COMMA), ",").to_pylist() == [*UNDER_A_COMMA.values()]


@pytest.mark.integration
def test_the_graph_follows_the_same_rule():
    import tensorflow as tf

    from fullpass.preprocessing.expressions.tensor_ops import token_tensor as in_the_graph

    assert [text.decode() for text in in_the_graph(list(SPELLINGS)).numpy()] == list(SPELLINGS.values())
    assert in_the_graph(tf.constant([b"\xff1.0"])).numpy().tolist() == [b"\xff1.0"]
    assert [text.decode() for text in in_the_graph([*UNDER_A_COMMA], ",").numpy()] == [*UNDER_A_COMMA.values()]


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
        (pa.array([True, False, None]), [], [b"true", b"false", None]),
        (pa.array(["True", "FALSE", "true", None]), ["false"], [b"true", None, b"true", None]),
        (pa.array([b"True", b"FALSE", None]), [], [b"true", b"false", None]),
    ],
    ids=["text", "bytes", "floats", "ints", "lists of one", "dictionary", "booleans", "their texts", "their bytes"],
)
def test_records_hold_tokens(cells, missing, expected):
    assert (
        convert(cells, RawColumn("c", "string", token=True), strip=True, missing=missing).flat.to_pylist() == expected
    )


def test_whole_numbers_of_a_decimal_comma_are_tokens():
    """1.000 is one thousand there, and no 1."""

    def read(cells, **column):
        raw = RawColumn("c", "string", token=True, **column)
        return convert(pa.array(cells), raw, strip=True, missing=["-9"], decimal=",").flat.to_pylist()

    assert read(["102,0", "102", "-9,0", "1.000", "2,5"]) == [b"102", b"102", None, b"1.000", b"2,5"]
    assert read([102.0, 2.5]) == [b"102", b"2.5"]
    assert read(["102,0|7"], many=True, separator="|") == [[b"102", b"7"]]


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
    assert of({"task": "binary", "positive": "TRUE"}).label.positive == "true"
    binary = of({"task": "binary", "positive": "2.0", "class_weights": {"2.0": 3.0}}).label
    assert (binary.positive, binary.class_weights) == ("2", {"2": 3.0})
    for wrong in ({"vocabulary": {"tokens": ["1", "1.0"]}}, {"label": {"classes": ["1", "1.0"]}}):
        with pytest.raises(ValueError, match="'1' and '1.0' are one token"):
            of(**wrong)


def test_a_vocabulary_file_may_use_either_spelling():
    assert category_tokens("v.txt", ("1.0", "2")) == ("1", "2")
    with pytest.raises(UserError, match="v.txt': '1.0' and '1' are one token"):
        category_tokens("v.txt", ("1.0", "1"))
