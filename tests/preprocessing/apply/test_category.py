"""Ids of categories, booleans, counts and crosses, in the order of the contract: missing, OOV buckets, vocabulary."""

import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.vocabulary_file import read_vocabulary_file
from fullpass.preprocessing.columns.outputs import vocabulary_name

pytestmark = pytest.mark.integration


def farm_hash(text, buckets):
    return int(tf.strings.to_hash_bucket_fast([text], buckets)[0])


def test_learned_vocabularies(assert_transform):
    # b occurs three times, a and c twice (on a tie the later token comes first, as in tft.vocabulary), d once.
    tokens = ["b", "a", "b", None, "c", "c", "a", "b", "d", ""]
    queries = ["a", "b", "c", "d", "unseen", None, ""]
    oov = [1 + farm_hash(token, 4) for token in ("a", "c", "d", "unseen")]
    analysed = assert_transform(
        {
            "x": "category",
            "frequent": {"type": "category", "column": "x", "vocabulary": {"min_count": 2, "oov_buckets": 4}},
            "größe, 1": {"type": "category", "column": "x", "vocabulary": {"top_k": 1, "oov_buckets": 4}},
            "counted": {"type": "category", "column": "x", "vocabulary": {"coverage": 0.9, "min_count": 2}},
        },
        analyze={"x": tokens},
        apply={"x": queries},
        expected={
            "x_xf": [4, 2, 3, 5, 1, 0, 0],
            "frequent_xf": [7, 5, 6, oov[2], oov[3], 0, 0],
            "größe, 1_xf": [oov[0], 5, oov[1], oov[2], oov[3], 0, 0],
            # No two tokens cover 90 %, and d is too rare.
            "counted_xf": [4, 2, 3, 1, 1, 0, 0],
        },
    )
    assert analysed.vocabulary(vocabulary_name("x")) == ["b", "c", "a", "d"]
    assert analysed.vocabulary(vocabulary_name("größe, 1")) == ["b"]
    assert analysed.vocabulary(vocabulary_name("counted")) == ["b", "c", "a"]
    names = ("x", "frequent", "größe, 1", "counted")
    assert [analysed.size(f"{name}_xf") for name in names] == [6, 8, 6, 5]


def test_whole_numbers_are_one_category_with_and_without_a_point(assert_transform):
    """Tools write 3067 as 3067.0 if the column has missing values. Other texts with a decimal point stay distinct."""
    analysed = assert_transform(
        {
            "tract": {"type": "category"},
            "few": {"type": "category", "column": "tract", "identity": {"size": 4}},
            "several": {"type": "category", "column": "tract", "separator": "|"},
        },
        analyze={"tract": ["3067", "3067.0", "3067.0", "1.0.0", "1.0.0", "2.50"]},
        apply={"tract": ["3067.00", "3067", "1.0.0", "2.50", "3.0"]},
        expected={
            "tract_xf": [2, 2, 3, 4, 1],
            "few_xf": [1, 1, 1, 1, 5],
            "several_xf": [[2], [2], [3], [4], [1]],
        },
    )
    assert analysed.vocabulary(vocabulary_name("tract")) == ["3067", "1.0.0", "2.50"]


def test_every_reader_of_a_token_takes_both_spellings(assert_transform, tmp_path):
    """Shop 100 has the values 1, 2, 3 and shop 101 has 10, 12, 12, 14, whatever the spelling."""
    (tmp_path / "shops.txt").write_text("100.0\n101\n")
    key = {"key": "shop"}
    assert_transform(
        {
            "shop": "category",
            "hashed": {"type": "category", "column": "shop", "hash": {"buckets": 1000}},
            "number": {"type": "category", "column": "shop", "identity": {"size": 300}},
            "listed": {"type": "category", "column": "shop", "vocabulary": {"tokens": ["100.0", "101"]}},
            "filed": {"type": "category", "column": "shop", "vocabulary": {"file": str(tmp_path / "shops.txt")}},
            "known": {"type": "boolean", "column": "shop", "true": ["100.0"], "false": ["101"]},
            "n": {"type": "count", "column": "shop"},
            "v": {"type": "number", "transforms": [{"z_score": key}]},
            "w": {"type": "number", "column": "v", "transforms": [{"min_max": key}]},
            "tags": {"type": "category", "list": True},
            "is100": {"type": "number", "transforms": []},
            "named": {"type": "category", "vocabulary": {"tokens": ["100", "101"]}},
        },
        crosses=[{"inputs": ["shop", "known"], "vocabulary": {}, "hash_buckets": None}],
        derive={"is100": 'shop == "100.0"', "named": 'concat(shop, ".0")'},
        label={"name": "y", "task": "multiclass"},
        analyze={
            "shop": ["100.0", "100", "100.0", "101", "101.0", "101", "101", None],
            "v": [1, 2, 3, 10, 12, 12, 14, 5],
            "tags": [["8", "7.0"], ["7"], ["8.0", "7"], None, ["7"], ["8"], ["9.0"], None],
            "y": ["1", "1.0", "1", "2", "2.0", "2", "2", None],
        },
        apply={
            "shop": ["100", "100.0", "101.0"],
            "v": [1, 1, 14],
            "tags": [["7.0", "8.0", "9"], ["7", "8", "9.0"], []],
            "y": ["1.0", "1", "2.0"],
        },
        expected={
            "shop_xf": [3, 3, 2],
            "number_xf": [102, 102, 103],
            "listed_xf": [2, 2, 3],
            "filed_xf": [2, 2, 3],
            "known_xf": [2, 2, 1],
            "n_xf": [3, 3, 4],
            "v_xf": [-1.2247449, -1.2247449, 1.4142136],
            "w_xf": [0, 0, 1],
            "tags_xf": [[2, 3, 4], [2, 3, 4], []],
            "is100_xf": [1, 1, 0],
            "named_xf": [2, 2, 3],
            "shop_x_known_xf": [3, 3, 2],
            "label": [1, 1, 0],
        },
    )


def test_given_vocabularies_hashes_identities_and_booleans(assert_transform, tmp_path):
    file = tmp_path / "cities.txt"
    file.write_text("new york\nzürich\n", encoding="utf-8")
    key = {"hash": {"buckets": 10, "key": [3, 5]}}
    strong = [int(i) for i in 1 + tf.strings.to_hash_bucket_strong(["ZÜRICH", "rome"], 10, [3, 5])]
    fast = [1 + farm_hash(token, 10) for token in ("ZÜRICH", "rome")]
    analysed = assert_transform(
        {
            "tokens": {"type": "category", "column": "city", "vocabulary": {"tokens": ["rome", "ZÜRICH"]}},
            "file": {"type": "category", "column": "city", "vocabulary": {"file": str(file)}, "lowercase": True},
            "hash": {"type": "category", "column": "city", "hash": {"buckets": 10}},
            "keyed": {"type": "category", "column": "city", **key},
            "digit": {"type": "category", "identity": {"size": 3}},
            "text": {"type": "category", "identity": {"size": 3}},
            "float": {"type": "category", "vocabulary": {"tokens": ["7", "0.1", "123456.78", "-2", "16777216"]}},
            "b": "boolean",
            "own": {"type": "boolean", "column": "b", "true": ["Ja"], "false": ["Nein", "no"]},
            "flag": "boolean",
        },
        analyze={"city": ["ZÜRICH"]},
        apply={
            "city": ["ZÜRICH", "rome", None, "", "ZÜRICH", "rome"],
            "digit": [0, 2, None, 3, -1, 1.5],
            "text": ["0", "2", None, "3", "two", "99999999999999999999"],
            "float": [7, 0.1, None, 123456.78, -2, 16777216],
            "b": ["TRUE", "no", "ja", "", None, "maybe"],
            "flag": [1, 0, None, 2, 1, 0],
        },
        types={"digit": "number", "float": "number", "flag": "number"},
        expected={
            "tokens_xf": [3, 2, 0, 0, 3, 2],
            "file_xf": [3, 1, 0, 0, 3, 1],
            "hash_xf": [fast[0], fast[1], 0, 0, fast[0], fast[1]],
            "keyed_xf": [strong[0], strong[1], 0, 0, strong[0], strong[1]],
            "digit_xf": [2, 4, 0, 1, 1, 1],
            "text_xf": [2, 4, 0, 1, 1, 1],
            "float_xf": [2, 3, 0, 4, 5, 6],
            "b_xf": [2, 1, 0, 0, 0, 0],
            "own_xf": [0, 1, 2, 0, 0, 0],
            "flag_xf": [2, 1, 0, 0, 2, 1],
        },
    )
    sizes = [analysed.size(f"{name}_xf") for name in ("tokens", "file", "hash", "keyed", "digit", "float", "b")]
    assert sizes == [4, 4, 11, 11, 5, 7, 3]


def test_several_values_in_a_cell(assert_transform):
    analysed = assert_transform(
        {
            "genres": {"type": "category", "separator": "|", "lowercase": True},
            "hashed": {"type": "category", "column": "genres", "separator": "|", "hash": {"buckets": 5}},
            "words": {"type": "category", "separator": "AND", "lowercase": True},
        },
        analyze={"genres": ["Drama|Comedy", "drama", None, " comedy |drama|"], "words": ["A", "B AND a", "b", "b"]},
        apply={
            "genres": ["comedy|drama|comedy", "war|Drama", None, " | ", "drama"],
            "words": ["a AND B", "b", "a and b", None, "AND"],
        },
        expected={
            "words_xf": [[3, 2], [2], [1], [], []],
            "genres_xf": [[3, 2, 3], [1, 2], [], [], [2]],
            "hashed_xf": [
                [1 + farm_hash(t, 5) for t in ("comedy", "drama", "comedy")],
                [1 + farm_hash(t, 5) for t in ("war", "Drama")],
                [],
                [],
                [1 + farm_hash("drama", 5)],
            ],
        },
    )
    assert analysed.size("genres_xf") == 4


def test_crosses(assert_transform):
    def cell(*parts):
        return 1 + farm_hash("\x1f".join(parts), 100)

    analysed = assert_transform(
        {
            "city": {"type": "category", "lowercase": True, "hash": {"buckets": 9}},
            "open": "boolean",
            "fare": {"type": "number", "transforms": [{"bucketize": {"boundaries": [10]}}]},
            "at": {"type": "date", "parts": ["hour"]},
        },
        crosses=[
            {"inputs": ["city", "fare"], "hash_buckets": 100},
            {"inputs": ["city", "open", "at.hour"], "hash_buckets": 100, "name": "all"},
            {"inputs": ["city", "open"], "vocabulary": {}, "name": "seen"},
        ],
        analyze={
            "city": ["Rome", "Oslo", "rome", None],
            "open": ["yes", "no", "yes", "yes"],
            "fare": [1.0, 2.0, 3.0, 4.0],
            "at": ["2024-01-01"] * 4,
        },
        apply={
            "city": ["ROME", "oslo", "oslo", None],
            "open": ["yes", "no", "yes", "yes"],
            "fare": [5.0, 15.0, None, 1.0],
            "at": ["2024-01-01 05:00", "never", "2024-01-01 23:00", "2024-01-01 05:00"],
        },
        expected={
            "city_x_fare_xf": [cell("rome", "1"), cell("oslo", "2"), 0, 0],
            # The cells hold ids: 2 is true, hour 1 is midnight.
            "all_xf": [cell("rome", "2", "6"), 0, cell("oslo", "2", "24"), 0],
            "seen_xf": [2, 3, 1, 0],
        },
    )
    assert [analysed.size(f"{name}_xf") for name in ("city_x_fare", "all", "seen")] == [101, 101, 4]


def test_counts_and_vocabularies_of_no_tokens(assert_transform):
    analysed = assert_transform(
        {
            "zip": "count",
            "share": {"type": "count", "column": "zip", "share": True},
            "no_share": {"type": "count", "column": "x", "share": True},
            "number": {"type": "count", "transforms": ["log1p"]},
            "no_count": {"type": "count", "column": "x"},
            "x": "category",
            "covering": {"type": "category", "column": "x", "vocabulary": {"coverage": 0.5}},
            "lines": {"type": "category", "column": "zip", "vocabulary": {"oov_buckets": 3}},
        },
        analyze={
            "zip": ["new york", "a\nb", "new york", None],
            "number": [5, 5, 5, None],
            "x": [None, "", None, ""],
        },
        apply={
            "zip": ["new york", "a\nb", "unseen", None],
            "number": [5, 6, None, 5],
            "x": ["a", None, "", "49d0cd50"],
        },
        types={"number": "number"},
        expected={
            "zip_xf": [2, 1, 0, 0],
            "share_xf": [0.5, 0.25, 0, 0],
            "no_share_xf": [0, 0, 0, 0],
            "number_xf": [1.3862944, 0, 0, 1.3862944],
            "no_count_xf": [0, 0, 0, 0],
            "x_xf": [1, 0, 0, 1],
            "covering_xf": [1, 0, 0, 1],
            # A token with a line break cannot be a line of the vocabulary file.
            "lines_xf": [4, 1 + farm_hash("a\nb", 3), 1 + farm_hash("unseen", 3), 0],
        },
    )
    assert analysed.size("x_xf") == analysed.size("covering_xf") == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"new york\nz\xfcrich\n", r"line 2: b'z\\xfcrich' is not UTF-8"),
        (b"a\n\nb\n", "line 2: empty"),
        (b"a\nb\na\n", "'a' is on lines 1 and 3"),
        (b"", "is empty"),
    ],
)
def test_a_vocabulary_file_that_cannot_be_used_is_refused_in_words(tmp_path, content, expected):
    file = tmp_path / "cities.txt"
    file.write_bytes(content)
    with pytest.raises(UserError, match=expected) as refused:
        read_vocabulary_file(str(file))
    assert str(file) in str(refused.value)


def test_lines_of_a_vocabulary_file_end_as_in_a_table_of_tensorflow(tmp_path):
    file = tmp_path / "cities.txt"
    file.write_bytes("a\r\nb\u2028c\nd".encode())
    initializer = tf.lookup.TextFileInitializer(
        str(file), tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
    )
    table = tf.lookup.StaticHashTable(initializer, "")
    lines = [line.decode() for line in table.lookup(tf.range(3, dtype=tf.int64)).numpy()]
    assert list(read_vocabulary_file(str(file))) == lines == ["a", "b\u2028c", "d"]
