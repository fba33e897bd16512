import numpy as np
import pyarrow as pa
import pytest

from fullpass.pipeline.authoring.init.propose_features import feature_of
from fullpass.pipeline.authoring.profile.column_profile import profile_list_column, shown, words_of
from tests.pipeline.authoring.tables import column_of

RANDOM = np.random.default_rng(3)
WORDS = np.array("the a of taxi ride was good bad very slow driver street city night rain".split())


def kind(name, texts):
    return column_of(name, texts).kind


def of(texts, rows=200):
    return [str(text) for text in RANDOM.choice(np.array(texts, dtype=object), rows)]


@pytest.mark.parametrize(
    ("name", "texts", "expected"),
    [
        ("price", [f"{x:.2f}" for x in RANDOM.lognormal(size=200)], "number"),
        ("passengers", of(range(7)), "number"),
        ("num_products", of(range(7)), "number"),
        ("vendor_id", of([1, 2, 5]), "category"),
        ("pickupZone", of(range(60)), "category"),
        ("zip", of(["01234", "90210"]), "category"),
        ("tract_number", of([17031081000.0, 17031832600.0]), "category"),
        ("user_id_str", [str(10**7 + 37 * (i * 3 // 4)) for i in range(200)], "category"),
        ("area", of(range(30)), "number"),
        ("rate", of(range(9)), "number"),
        ("area_code", of(range(200, 230)), "category"),
        ("lane", of([1, 2]), "category"),
        ("day", of(range(1, 32)), "category"),
        ("day", of(range(90)), "number"),  # days since a beginning
        ("day_code", of(range(90)), "category"),
        ("Hour", of([0, 730, 1545, 2359]), "number"),  # of day, written with minutes
        ("id", [str(i) for i in RANDOM.permutation(200)], "id"),
        ("score", [str(i) for i in RANDOM.permutation(200)], "number"),
        ("key", [f"{i:08x}" for i in RANDOM.integers(0, 2**32, 200)], "id"),
        ("name", [f"Person {i}" for i in range(200)], "id"),
        ("title", [f"{('red', 'old', 'new')[i % 3]} shoe brand{i // 3}" for i in range(200)], "text"),
        ("flag", of(["Y", "N"]), "boolean"),
        ("flag", of(["TRUE", "false"]), "boolean"),
        ("flag", of([0, 1]), "boolean"),
        ("sex", of(["F", "M"]), "category"),
        ("city", of(["Oslo", "Rome", "New York"]), "category"),
        ("when", of(["2013-01-01", "2013-05-07"]), "date"),
        ("tags", of(["a|b", "c", "b|c|d", "d|a", "b"]), "categories"),
        ("sizes", of(["3", "7", "12", "3,7", "7,12", "12,3", "3,7,12"]), "categories"),
        ("pair", of(["3", "7", "12", "3,7", "7,12", "3,12"]), "categories"),
        ("codes", of(["3", "7", "12", "3 7", "7 12", "3 7 12"]), "categories"),
        ("codes", of(["101", "310", "101,310", "310,999", "101,310,999"]), "categories"),
        ("share", of([f"{i % 40},{i % 10}" for i in range(400)] + [str(i) for i in range(40)]), "written_number"),
        ("views", of([f"{i * 37:,}" for i in range(400)]), "written_number"),
        ("discount", of(["5%", "10%", "0.05", "0.1"]), "category"),
        ("paid", of(["$5", "€5", "$7", "€9"]), "category"),
        ("balance", of(["5.10-", "7.20-", "3.15-"]), "written_number"),
        ("part", [f"{40 + i % 60}{'E' if i % 3 == 0 else i % 9}{i % 50:02d}" for i in range(400)], "id"),
        ("gene", [f"{i:04d}E{i % 90:02d}" if i % 5 else str(1_000_000 + i) for i in range(1, 400)], "id"),
        ("rate", of(["1e-3", "5e-4", "1e2"]), "number"),
        ("count", of(["1E3", "2E4", "5", "17"]), "number"),
        ("genres", of(["['Action', 'War']", "['War']", "[]", '["Action"]']), "categories"),
        ("genres", of(["[{'id': 1, 'name': 'War'}]", "[]", "[{'id': 2, 'name': 'Noir'}]"]), "unreadable"),
        ("point", [f"[{i}, {i * 7}]" for i in range(200)], "id"),
        ("scan", [f"{i}.txt" for i in range(200)], "id"),
        ("room", of([f"Class_{i}" for i in range(4)]), "category"),
        ("zip", [*of(["00501", "02139"]), "D.C. 2"], "category"),
        ("customer_id", ["77b", *map(str, RANDOM.permutation(200))], "id"),
        ("vendor_code", [*of(range(7)), "n.n."], "category"),
        ("holiday", of([*["0"] * 50, "a", "b", "c"], 2000), "category"),
        ("grade", of([*map(str, range(1, 13)), "K"]), "category"),
        ("place", of(["Oslo, NO", "Rome, IT", "Bergen, NO"]), "category"),
        ("review", [" ".join(RANDOM.choice(WORDS, 9)) for _ in range(200)], "text"),
        ("review", ["".join(RANDOM.choice(list("今天很好吃的不司机路"), 12)) for _ in range(200)], "text"),
        ("review", ["".join(RANDOM.choice(["ดี", "มาก", "รถ", "ช้า"], 9)) for _ in range(200)], "text"),
        ("city", of(["北京市", "上海市", "東京都"]), "category"),
        ("price", of(["$1,250.50", "$3", "-$12"]), "written_number"),
        ("price", [str(x) for x in RANDOM.random(195)] + ["call us", "ask", "free", "sold", "?!"], "written_number"),
        ("photo", of(["a/1.jpg", "a/2.PNG"]), "image_path"),
        ("nothing", [None] * 200, "empty"),
        ("year", ["2013"] * 200, "constant"),
        ("year", ["2013"] * 199 + [None], "constant"),
        ("note", ["vip"] * 30 + [None] * 170, "category"),
        ("small", ["1.5", "2.5"], "number"),
        ("amount", of(["1", "1.0", "+2.5", "2.5", "1e2", "100"]), "number"),
        ("price", [*map(str, RANDOM.random(199)), "1.50", "1.5"], "number"),
        ("small", ["x", "y", "z"], "category"),
    ],
)
def test_the_kind_of_a_column_follows_from_its_values_and_name(name, texts, expected):
    assert kind(name, texts) == expected


NUMBERS = np.random.default_rng(1).normal(0, 1000, 300).round(2).tolist()
WHOLE = [abs(int(x)) for x in NUMBERS]


@pytest.mark.parametrize(
    ("name", "texts", "like"),
    [
        ("x", [f"{abs(x):.2f}{'-' * (x < 0)}" for x in NUMBERS], "1234.5-"),
        ("x", [f"{abs(x):,.2f}{'-' * (x < 0)} €".translate(str.maketrans(",.", ".,")) for x in NUMBERS], "1.234,5- €"),
        ("x", [f"{n // 60}h {n % 60}m" if n > 59 else f"{n}m" for n in WHOLE], "2h 10m"),
        ("x", [f"PT{n // 60}H{n % 60}M" for n in WHOLE], "PT2H10M"),
        ("x", [f"{n // 6}:{n % 60:02d}" for n in WHOLE], "hh:mm"),
        ("x", [f"0 days {n // 60:02d}:{n % 60:02d}:00" for n in WHOLE], "hh:mm:ss"),
        ("x", [f"{n % 3 + 4}'{n % 12}\"" for n in WHOLE], "5'11\""),
        ("x", [f"{n} min" for n in WHOLE], "1234.5 min"),
        ("x", [f"{x}" if i else "7-" for i, x in enumerate(NUMBERS)], None),  # a single mark is a mistake
        ("x", [f"{x}" if i % 40 else "7-" for i, x in enumerate(NUMBERS)], None),  # the minus stands before numbers
        ("opens", [f"{n // 60 % 24}:{n % 60:02d}" for n in WHOLE], None),  # a time of the day
    ],
)
def test_how_numbers_are_written_is_found(name, texts, like):
    assert column_of(name, texts).like == like


def test_text_without_blanks_becomes_letters_and_pairs_of_them():
    def feature(texts):
        return feature_of(column_of("review", texts), None).value

    chinese = ["".join(RANDOM.choice(list("今天很好吃的不司机路"), 12)) + "。" for _ in range(200)]
    assert feature(chinese) == {"type": "text", "tokenize": "words", "ngrams": [1, 2]}
    assert feature([" ".join(RANDOM.choice(WORDS, 9)) for _ in range(200)]) == "text"


@pytest.mark.parametrize(
    ("lists", "expected", "width"),
    [
        ([[1.0, 2.0], None, [3.0, 4.0]], "vector", 2),
        ([[1.0], [3.0, 4.0]], "list", 0),
        ([["a"]], "list", 0),
        ([None, None], "empty", 0),
    ],
)
def test_lists_of_one_width_are_vectors(lists, expected, width):
    kinds = {"a": pa.list_(pa.string())}
    array = pa.array(lists, kinds.get(str(next((x[0] for x in lists if x), "")), pa.list_(pa.float64())))
    column = profile_list_column("v", array)
    assert (column.kind, column.width) == (expected, width)


def test_a_name_is_split_into_words_by_case_and_signs():
    assert words_of("pickupZone_id 2") == {"pickup", "zone", "id"}


def test_values_in_comments_stay_on_one_line():
    assert shown("a\nb\u2028c") == "a b c"
    assert shown("x" * 50) == "x" * 27 + "..."
