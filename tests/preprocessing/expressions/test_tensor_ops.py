"""Rules of each operator and function, by hand, and their operations in a saved graph."""

import inspect
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.preprocessing.expressions.expression import check_types, parse_expression
from fullpass.preprocessing.expressions.functions import TABLE
from fullpass.preprocessing.expressions.past_ops import PAST
from fullpass.preprocessing.expressions.tensor_ops import (
    NULL_HANDLING,
    NULL_PROPAGATING,
    StringColumn,
    compute_expression,
)
from tests.preprocessing.expressions.evaluation import NAN, column, f32, plain, run

pytestmark = pytest.mark.integration
FEW = settings(max_examples=40)
"""An op takes about as long for thirty values as for one, so there are few examples of many values."""


@pytest.mark.parametrize(
    ("text", "x", "expected"),
    [
        ("x / 0", [1, 0, None], [None, None, None]),
        ("0 / x", [2, 0, None], [0, None, None]),
        ("x % 3", [5, -5, 5.5], [2, 1, 2.5]),
        ("x % -3", [5, -5, 0], [-1, -2, 0]),
        ("x % 0", [5], [None]),
        ("x ** 2", [3, -3, 1e30, None], [9, 9, None, None]),
        ("x ** 0", [0, 7, None], [1, 1, None]),
        ("1 ** x", [0, 7, None], [1, 1, None]),
        ("x ** -1", [4, 0], [0.25, None]),
        ("pow(x, 0.5)", [4, -4], [2, None]),
        ("sqrt(x)", [4, 0, -1, None], [2, 0, None, None]),
        ("log(x)", [1, 0, -1, None], [0, None, None, None]),
        ("log1p(x)", [0, -1, -2, None], [0, None, None, None]),
        ("exp(x)", [0, 100, None], [1, None, None]),
        ("x * 10", [1e38, 1], [None, 10]),
        ("x + 1", [math.inf, -math.inf], [None, None]),
        ("is_missing(x)", [1, None, math.inf], [0, 1, 1]),
        ("x == x", [1, None], [1, None]),
        ("x != 1", [1, 2, None], [0, 1, None]),
        ("x == 0.1", [0.1], [1]),
        ("x > 0.1", [0.1, 0.2], [0, 1]),
        ("x in (0.1, -2)", [0.1, -2, 3, None], [1, 1, 0, None]),
        ("x not in (1, 2)", [1, 3, None], [0, 1, None]),
        ("0 < x <= 5", [0, 1, 5, 6, None], [0, 1, 1, 0, None]),
        ("0 < x < -1", [0, 5, None], [0, 0, None]),
        ("x < 3 and x > 5 < 2", [None, 9], [0, 0]),
        ("round(x)", [0.5, 1.5, -2.5, 2.4], [0, 2, -2, 2]),
        ("round(x, 1)", [0.25, 0.35, 1e30], [f32(0.2), f32(0.3), f32(1e30)]),
        ("round(x, 12)", [3.25e30, 0.1], [f32(3.25e30), f32(0.1)]),
        ("clip(x, 0, 10)", [-5, 5, 15, None], [0, 5, 10, None]),
        ("clip(x, 10, 0)", [5], [0]),
        ("min(x, 3, 1)", [2, 0, None], [1, 0, None]),
        ("max(x, 3, 1)", [2, 9, None], [3, 9, None]),
        ("abs(x) + floor(x) + ceil(x)", [-1.5], [-1.5]),
        ("where(x > 0, 1, 2)", [1, -1, None], [1, 2, None]),
        ("where(x > 0, x, 1 / 0)", [1, -1], [1, None]),
        ("coalesce(x, x / 2, 7)", [4, None], [4, 7]),
        ("missing_if(x, x < 0)", [1, -1, None], [1, None, None]),
        ("missing_if(x, missing_if(x, true) > 0)", [1], [None]),
        ("(x > 0) + (x > 1) + true", [0, 1, 2, None], [1, 2, 3, None]),
        ("2 + 3 * 4 - -2 ** 2", [1, 2], [18, 18]),
        ("true", [1, 2, 3], [1, 1, 1]),
    ],
)
def test_rules_of_numbers(text, x, expected):
    assert run(text, x=x) == expected


TRUTH = [1, 0, None]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("and", [1, 0, None, 0, 0, 0, None, 0, None]), ("or", [1, 1, 1, 1, 0, None, 1, None, None])],
)
def test_kleene_logic(operator, expected):
    pairs = [(a, b) for a in TRUTH for b in TRUTH]
    text = f"(x == 1) {operator} (y == 1)"
    assert run(text, x=[a for a, _ in pairs], y=[b for _, b in pairs]) == expected
    three = f"(x == 1) {operator} (y == 1) {operator} (y == 1)"
    assert run(three, x=[a for a, _ in pairs], y=[b for _, b in pairs]) == expected


def test_kleene_not():
    assert run("not (x == 1)", x=TRUTH) == [0, 1, None]


@pytest.mark.parametrize(
    ("text", "p", "expected"),
    [
        ("p == 'Cash'", ["Cash", "cash", "", None], [1, 0, 0, None]),
        ("p in ('Cash', \"\")", ["Cash", "x", "", None], [1, 0, 1, None]),
        ("p == '7.0'", ["7.0", "7", "07", "7.5", None], [1, 1, 0, 0, None]),
        ("p != '7'", ["7.0", "7", "x", None], [0, 0, 1, None]),
        ("p not in ('7.00', 'x')", ["7.0", "7", "x", "y", None], [0, 0, 0, 1, None]),
        ("length(p)", ["größe", "", "中😀", None], [5, 0, 2, None]),
        ("lower(p)", ["ÀBC ß", None], ["àbc ß", None]),
        ("upper(p)", ["straße", "àé"], ["STRASSE", "ÀÉ"]),
        ("strip(p)", ["  a b\t\n", "\u00a0a"], ["a b", "\u00a0a"]),
        ("concat(p, '-', p)", ["a", "", None], ["a-a", "-", None]),
        ("concat('a', 'b')", ["x", "y"], ["ab", "ab"]),
        ("substr(p, 1)", ["größe", "a", "", None], ["röße", "", "", None]),
        ("substr(p, 1, 3)", ["größe", "ab"], ["röß", "b"]),
        ("substr(p, -2)", ["größe", "a"], ["ße", "a"]),
        ("substr(p, -3, 2)", ["größe", "a", ""], ["öß", "a", ""]),
        ("substr(p, 99, 2)", ["größe"], [""]),
        ("substr(p, 0, 0)", ["größe"], [""]),
        ("contains(p, '.')", ["a.b", "ab", ".", None], [1, 0, 1, None]),
        ("contains(p, '')", ["a", ""], [1, 1]),
        (r"contains(p, '\\E')", ["a\\Eb", "aEb"], [1, 0]),
        ("contains(p, 'ö')", ["größe\n", "grosse"], [1, 0]),
        ("starts_with(p, 'a*')", ["a*b", "aab", "a\na*"], [1, 0, 0]),
        ("ends_with(p, 'b')", ["a\nb", "ba", "b\n"], [1, 0, 0]),
        (r"replace(p, '.', '\\1')", ["a.b.c", "abc", None], ["a\\1b\\1c", "abc", None]),
        ("replace(p, 'ab', '')", ["aabb", "abab"], ["ab", ""]),
        ("number(p)", ["1.5", " -2e3 ", "+.5", "5.", "1,000", "", "x", "nan", "inf", None], [1.5, -2000, 0.5, 5]
         + [None] * 6),
        ("number(p)", ["1e999", "-1e999", "1e-999", "1" * 31, "1" * 32, "0x10", "1_0", "٣"],
         [None, None, 0, f32("1" * 31), None, None, None, None]),
        ("number(replace(replace(p, '$', ''), ',', ''))", ["$1,234.50"], [1234.5]),
        ("is_missing(p)", ["", None], [0, 1]),
        ("coalesce(missing_if(p, p == ''), 'none')", ["", "a", None], ["none", "a", "none"]),
        ("where(p == 'a', 'yes', p)", ["a", "b", None], ["yes", "b", None]),
        ("where(length(p) > 1, concat(p, '!'), 'short')", ["ab", "c", None], ["ab!", "short", None]),
    ],
)  # fmt: skip
def test_rules_of_strings(text, p, expected):
    assert run(text, p=p) == expected


@FEW
@given(st.lists(st.text("0123456789+-.eE x_") | st.text(), min_size=1, max_size=30))
def test_number_never_fails_and_reads_as_python(texts):
    values = StringColumn(tf.constant(texts), tf.constant([True] * len(texts)))
    for text, number in zip(
        texts, plain(compute_expression(parse_expression("number(p)"), {"p": values})), strict=True
    ):
        try:
            with np.errstate(over="ignore"):
                expected = None if "_" in text or not text.isascii() else np.float32(text.strip(" \t\n\r\v\f"))
        except ValueError:
            expected = None
        if expected is None or not math.isfinite(expected) or len(text.strip(" \t\n\r\v\f")) > 31:
            assert number is None
        else:
            assert number == pytest.approx(float(expected), rel=2e-7, abs=1.2e-38)


@FEW
@given(st.lists(st.binary(max_size=8), min_size=1, max_size=30))
def test_bytes_that_are_no_text_never_fail(values):
    p = StringColumn(tf.constant(values), tf.constant([True] * len(values)))
    for text in ("lower(p)", "upper(p)", "strip(p)", "length(p)", "number(p)", "replace(p, 'a', 'b')"):
        compute_expression(parse_expression(text), {"p": p})
    for start in (-3, 0, 2):
        compute_expression(parse_expression(f"substr(p, {start}, 2)"), {"p": p})
    found = plain(compute_expression(parse_expression("contains(p, 'a')"), {"p": p}))
    assert found == [float(b"a" in value) for value in values]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exp(x)", np.exp),
        ("log(x)", np.log),
        ("log1p(x)", np.log1p),
        ("sqrt(x)", np.sqrt),
        ("x ** 1.7", lambda x: x ** f32(1.7)),
        ("pow(1.7, x)", lambda x: f32(1.7) ** x),
    ],
)
def test_transcendental_functions_to_float32(text, expected):
    x = np.float32(np.concatenate([np.linspace(0.001, 3, 200), np.geomspace(3, 80, 50)]))
    np.testing.assert_allclose(run(text, x=x.tolist()), expected(np.float64(x)), rtol=2e-6)


def angle_between(lat1, lon1, lat2, lon2):
    """Returns the angle between two vectors in space, in float64, for the great-circle distance."""

    def vector(lat, lon):
        lat, lon = np.radians(np.float64(np.float32(lat))), np.radians(np.float64(np.float32(lon)))
        return np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    a, b = vector(lat1, lon1), vector(lat2, lon2)
    return math.atan2(np.linalg.norm(np.cross(a, b)), a @ b)


@FEW
@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180), st.floats(-90, 90), st.floats(-180, 180))))
def test_haversine_against_vectors(points):
    points = [*points, (41.88, -87.63, 41.97, -87.9), (0, 0, 0, 180), (90, 5, -90, 7), (10, 10, 10, 10)]
    a, b, c, d = ([float(np.float32(x)) for x in side] for side in zip(*points, strict=True))
    expected = [6371.0088 * angle_between(*point) for point in points]
    result = run("haversine(a, b, c, d)", a=a, b=b, c=c, d=d)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=2e-4)


def test_haversine_by_hand():
    quarter = 6371.0088 * math.pi / 2
    assert run("haversine(x, 0, 90, 0)", x=[0, 90, None, 91]) == [pytest.approx(quarter), 0, None, None]
    assert run("haversine(0, x, 0, 0)", x=[90, 270, 360, 361]) == [
        pytest.approx(quarter),
        pytest.approx(quarter),
        pytest.approx(0, abs=1e-6),
        None,
    ]


def test_the_table_and_the_operations_agree():
    assert not NULL_PROPAGATING.keys() & NULL_HANDLING.keys()
    assert NULL_PROPAGATING.keys() | NULL_HANDLING.keys() | PAST.keys() == TABLE.keys()
    assert {name for name, function in TABLE.items() if function.null_propagating} == NULL_PROPAGATING.keys()


@pytest.mark.parametrize("function", [f for f in TABLE.values() if not f.reads_list], ids=lambda f: f.name)
def test_every_operation_takes_what_the_table_says_and_gives_the_type_it_says(function):
    samples = {"number": "x", "string": "p", "boolean": "(x > 0)", "any": "x"}

    def sample(parameter):
        literals = {"number": "1", "string": "'1234.5'"}
        return literals[parameter.type] if parameter.literal else samples[parameter.type]

    for count in {function.min_arguments, len(function.parameters), len(function.parameters) + 1}:
        if function.max_arguments is None or count <= function.max_arguments:
            arguments = [sample(function.parameter(i)) for i in range(count)]
            text = written_form(function, arguments)
            result = compute_expression(parse_expression(text), {"x": column([2.0]), "p": column(["1"])})
            assert isinstance(result, StringColumn) == (function.result == "string"), text
            type_of_result = check_types(parse_expression(text), {"x": "number", "p": "string"})
            assert type_of_result == ("number" if function.result == "any" else function.result)


def written_form(function, arguments):
    match function.name:
        case "in":
            return f"{arguments[0]} in (1, 2)"
        case "not":
            return f"not {arguments[0]}"
        case "negate":
            return f"-{arguments[0]}"
    if function.form:
        return f" {function.name} ".join(arguments[:2])
    return f"{function.name}({', '.join(arguments)})"


@pytest.mark.parametrize("names", [{"x"}, {"x", "y"}])
def test_a_column_that_is_not_there_is_named(names):
    with pytest.raises(UserError, match=r"'a \+ x \+ y' cannot be computed: column a, y is absent. Received: x"):
        compute_expression(parse_expression("a + x + y"), {"x": column([1.0])})
    with pytest.raises(UserError, match="column of any name is absent. Received: no column"):
        compute_expression(parse_expression("1"), {})


EVERYTHING = (
    "where(p == 'a' and x > 0 or is_missing(y), round(log1p(x) / y ** 2 % 3, 2), haversine(x, y, 1, 2)) "
    "+ length(concat(lower(p), substr(p, -2, 1), 'z')) + (x in (1, 2)) + coalesce(number(p), min(x, y), 0) "
    "+ contains(p, 'b') + clip(x, -1, 1) + missing_if(x, 0 < y <= 5) * true"
)


class Derived(tf.Module):
    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None], dtype) for dtype in (tf.float32, tf.float32, tf.string, tf.bool)],
    )
    def columns(self, x, y, values, present):
        columns = {"x": x, "y": y, "p": StringColumn(values, present)}
        text = compute_expression(parse_expression("where(x > 0, upper(p), 'none')"), columns)
        return {
            "everything": compute_expression(parse_expression(EVERYTHING), columns),
            "constant": compute_expression(parse_expression("1 + 2"), columns),
            "deep": compute_expression(parse_expression("+".join(["x"] * 100)), columns),
            "text": text.values,
            "text_present": text.present,
        }


def test_a_saved_model_of_any_batch_gives_the_same_as_eager_ops(tmp_path):
    module = Derived()
    shapes = module.columns.get_concrete_function().output_shapes
    assert {name: shape.as_list() for name, shape in shapes.items()} == {name: [None] for name in shapes}
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    x, y, p = [1.0, -2.0, NAN, 3.0], [2.0, NAN, 1.0, 0.5], ["a", "12", "bb", "a"]
    for size in (4, 1, 0):
        batch_of = (
            tf.constant(x[:size], tf.float32),
            tf.constant(y[:size], tf.float32),
            tf.constant(p[:size], tf.string),
            tf.constant([True, True, False, True][:size], tf.bool),
        )
        columns = {"x": batch_of[0], "y": batch_of[1], "p": StringColumn(*batch_of[2:])}
        outputs = loaded.columns(*batch_of)
        for name, text in (("everything", EVERYTHING), ("constant", "3"), ("deep", "100 * x")):
            np.testing.assert_allclose(
                outputs[name], compute_expression(parse_expression(text), columns), rtol=1e-6, err_msg=name
            )
        text = StringColumn(outputs["text"], outputs["text_present"])
        assert plain(text) == ["A", "none", None, "A"][:size]


@pytest.mark.parametrize("function", TABLE.values(), ids=lambda function: function.name)
def test_no_operation_takes_more_literal_arguments_than_the_table(function):
    op = {**NULL_PROPAGATING, **NULL_HANDLING, **PAST}[function.name]
    names = [p.name for p in function.parameters if p.literal]
    if names:
        assert list(inspect.signature(op).parameters)[-len(names) :] == names
