"""Derived columns on NumPy against the graph's: two evaluators of one language, written apart."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.pipeline.authoring.profile.evaluate_expression import evaluate_arrays
from fullpass.preprocessing.expressions.expression import check_types, parse_expression
from fullpass.preprocessing.expressions.functions import TABLE
from fullpass.preprocessing.expressions.tensor_ops import StringColumn
from fullpass.preprocessing.expressions.tensor_ops import compute_expression as evaluate_in_graph

ROWS = 200
TYPES = {"a": "number", "b": "number", "lat": "number", "lon": "number", "s": "string", "t": "string", "w": "string"}
EXPRESSIONS = [
    "a > 1 or b > 1", "a > 0 and b > 0", "not (a > b)", "a == b", "s == t", "a != 2", "a < b <= 3", "a >= b",
    "a in (1, 2, 3)", "a not in (0, -1.5)", 's in ("x", "Yes ")', 's != "7"', 't in ("7.0", "x")', "a + b",
    "a - b", "a * b", "a / b", "a % b", "-a", "a ** b", "abs(a)", "sqrt(a)", "exp(a)", "log(a)", "log1p(a)",
    "floor(a)", "ceil(a)", "round(a)", "round(a, 1)", "pow(a, 2)", "clip(a, -1, b)", "min(a, b, 1)", "max(a, b)",
    "haversine(lat, lon, lon, lat)", "where(a > 0, a, b)", 'where(a > b, s, "none")', "coalesce(a, b, 7)",
    'coalesce(s, t, "?")', "is_missing(s)", "is_missing(a + b)", "missing_if(a, b > 1)", "missing_if(s, a < 0)",
    "number(s)", 'number(s, "$1,234.5")', 'number(w, "1.234,5 kg")', 'number(w, "€1 234,5K+")',
    'number(w, "12,34,567.5")', 'number(concat(t, ""))', "lower(s)", "upper(s)", "strip(s)", "length(s)",
    'concat(s, "-", t)', "substr(s, 1)", "substr(s, -2, 1)", 'replace(s, "e", "EE")', 'contains(s, "e")',
    'starts_with(s, "Y")', 'ends_with(s, " ")', "3", "a > 0.1 * b",
]  # fmt: skip


@pytest.fixture(scope="module")
def columns():
    random = np.random.default_rng(7)
    numbers = {
        name: np.where(random.random(ROWS) < 0.1, np.nan, random.choice([0, 1, 2, -1.5, 0.1, 3, 80, 1e30], ROWS))
        for name in ("a", "b", "lat", "lon")
    }
    written = [
        "3,10", "1,234", "-1.234,5", "(1,23,456.5)", "€5", "\u22127", "1\u202f234", "1.2k", "3M+", "2bn", "(5)",
        "12 kg", "1.5", "0,5", "١٢", "12\u00a0kg", "1,2,3", "-(5)", "", "1.234.567", "5-", "+1e3",
    ]  # fmt: skip
    words = np.array([None, "", "x", "Yes ", "é ß", " 12.5", "7.0", "7", "-2e3", "1e", "Grün", "y e s"], dtype=object)
    return {
        **{n: v.astype(np.float32) for n, v in numbers.items()},
        **{n: random.choice(words, ROWS) for n in "st"},
        "w": random.choice(np.array(written, dtype=object), ROWS),
    }


def of_graph(text, columns):
    def tensor(values):
        if values.dtype != object:
            return tf.constant(values)
        present = [value is not None for value in values]
        return StringColumn(tf.constant([v or "" for v in values]), tf.constant(present))

    result = evaluate_in_graph(parse_expression(text), {name: tensor(values) for name, values in columns.items()})
    if isinstance(result, StringColumn):
        pairs = zip(result.values.numpy(), result.present.numpy(), strict=True)
        return [value.decode() if present else None for value, present in pairs]
    return result.numpy()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_numpy_agrees_with_the_graph(text, columns):
    check_types(parse_expression(text), TYPES)
    expected = of_graph(text, columns)
    received = evaluate_arrays(parse_expression(text), columns, ROWS)
    if isinstance(expected, list):
        assert received.tolist() == expected
    else:
        np.testing.assert_allclose(received, expected, rtol=2e-6, atol=1e-37, equal_nan=True)


def test_every_function_is_tried():
    def names(node):
        yield from (getattr(node, "function", None), *getattr(node, "operators", ()))
        yield "in" if hasattr(node, "members") else None
        for child in (*getattr(node, "arguments", ()), *getattr(node, "operands", ())):
            yield from names(child)

    tried = {name for text in EXPRESSIONS for name in names(parse_expression(text).root)}
    assert {name for name, function in TABLE.items() if not function.reads_list} <= tried  # a sample has no history
