"""Random expressions, against an evaluator in Python."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fullpass.preprocessing.expressions.expression import check_types, parse_expression
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, compute_expression
from tests.preprocessing.expressions.evaluation import column, f32, plain

pytestmark = pytest.mark.integration

# An independent evaluator in Python floats, rounded to float32 after every operation. Its trees are tuples, not those
# of the parser; None is missing.


class BelowNormal(Exception):
    """A result so small that TensorFlow flushes it to 0."""


def rounded(number):
    with np.errstate(over="ignore"):
        value = f32(number)
    if 0 < abs(value) < 1.1754944e-38 or (value == 0 and number != 0):
        raise BelowNormal
    return value if math.isfinite(value) else None


def divided(a, b):
    return rounded(a / b) if b else None


def remainder(a, b):
    return rounded(a % b) if b else None


NUMERIC = {
    "+": lambda a, b: rounded(a + b),
    "-": lambda a, b: rounded(a - b),
    "*": lambda a, b: rounded(a * b),
    "/": divided,
    "%": remainder,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "negate": lambda a: -a,
    "not": lambda a: not a,
    "abs": abs,
    "floor": lambda x: rounded(math.floor(x)),
    "ceil": lambda x: rounded(math.ceil(x)),
    "round1": lambda x: rounded(round(x, 1)),
    "sqrt": lambda x: rounded(math.sqrt(x)) if x >= 0 else None,
    "min": min,
    "max": max,
    "clip": lambda x, low, high: min(max(x, low), high),
    "length": len,
    "lower": str.lower,
    "upper": str.upper,
    "strip": lambda text: text.strip(" \t\n\r\v\f"),
    "concat": lambda a, b: a + b,
    "contains": lambda text, part: part in text,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "replace": str.replace,
    "substr": lambda text, start, length: text[start:][:length],
}


def reference(tree, row):
    kind = tree[0]
    if kind == "column":
        value = row[tree[1]]
        return value if isinstance(value, str | None) or math.isfinite(value) else None
    if kind == "constant":
        return tree[1]
    values = [reference(child, row) for child in tree[1:]]
    match kind:
        case "and":
            return False if False in values else (None if None in values else True)
        case "or":
            return True if True in values else (None if None in values else False)
        case "where":
            return None if values[0] is None else values[1 if values[0] else 2]
        case "coalesce":
            return next((value for value in values if value is not None), None)
        case "is_missing":
            return values[0] is None
        case "missing_if":
            return values[0] if values[1] is False else None
        case "chain":
            pairs = [NUMERIC["<"], NUMERIC["<="]]
            tests = [
                None if None in (a, b) else test(a, b) for test, a, b in zip(pairs, values, values[1:], strict=False)
            ]
            return False if False in tests else (None if None in tests else True)
        case "in":
            return None if values[0] is None else values[0] in values[1:]
    return None if None in values else NUMERIC[kind](*values)


def written(tree):
    """Returns a tree as fully parenthesized text."""
    kind = tree[0]
    if kind == "column":
        return f"`{tree[1]}`"
    if kind == "constant":
        return written_constant(tree[1])
    parts = [written(child) for child in tree[1:]]
    match kind:
        case "not":
            return f"(not {parts[0]})"
        case "negate":
            return f"(-{parts[0]})"
        case "round1":
            return f"round({parts[0]}, 1)"
        case "chain":
            return f"({parts[0]} < {parts[1]} <= {parts[2]})"
        case "in":
            return f"({parts[0]} in ({', '.join(parts[1:])}))"
    if kind.isidentifier() and kind not in ("and", "or"):
        return f"{kind}({', '.join(parts)})"
    return f"({f' {kind} '.join(parts)})"


def written_constant(value):
    if isinstance(value, str):
        return '"' + value.replace("\\", r"\\").replace('"', r"\"") + '"'
    return str(value).lower() if isinstance(value, bool) else repr(value)


NUMBERS = st.one_of(
    st.integers(-4, 4).map(float),
    st.integers(-400, 400).map(lambda n: n / 8),
    st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False),
)
# One letter per kind of case conversion and UTF-8 length; no final sigma, whose case depends on the context.
STRINGS = st.text("aB ßÄé中😀\\\"'.*\n\t", max_size=5)
NUMBER_COLUMNS, STRING_COLUMNS = ("x", "trip miles", "größe"), ("p", "in")


def constants(values):
    return values.map(lambda value: ("constant", value))


def columns_named(names):
    return st.sampled_from(names).map(lambda name: ("column", name))


@st.composite
def trees(draw, type, depth=3):
    def sub(wanted=type):
        return draw(trees(wanted, depth - 1))

    if depth == 0 or draw(st.integers(0, 4)) == 0:
        leaves = {
            "number": columns_named(NUMBER_COLUMNS) | constants(NUMBERS),
            "string": columns_named(STRING_COLUMNS) | constants(STRINGS),
            "boolean": constants(st.booleans()),
        }
        return draw(leaves[type])
    either = draw(st.sampled_from(["number", "string", "boolean"]))
    forms = {
        "number": ["+", "-", "*", "/", "%", "negate", "abs", "floor", "ceil", "round1", "sqrt", "min", "max", "clip"]
        + ["length", "bool"],
        "string": ["lower", "upper", "strip", "concat", "replace", "substr"],
        "boolean": ["<", "<=", ">", ">=", "==", "!=", "chain", "in", "and", "or", "not", "is_missing"]
        + ["contains", "starts_with", "ends_with"],
    }
    form = draw(st.sampled_from(forms[type] + ["where", "coalesce", "missing_if"]))
    match form:
        case "bool":
            return sub("boolean")
        case "where":
            return (form, sub("boolean"), sub(), sub())
        case "missing_if":
            return (form, sub(), sub("boolean"))
        case "is_missing":
            return (form, sub(either))
        case "==" | "!=":
            return (form, sub(either), sub(either))
        case "in":
            wanted, values = draw(st.sampled_from([("number", NUMBERS), ("string", STRINGS)]))
            return (form, sub(wanted), *draw(st.lists(constants(values), min_size=1, max_size=3)))
        case "chain":
            return (form, sub("number"), sub("number"), sub("number"))
        case "clip":
            return (form, sub(), sub(), sub())
        case "length":
            return (form, sub("string"))
        case "contains" | "starts_with" | "ends_with":
            return (form, sub("string"), draw(constants(STRINGS)))
        case "replace":
            return (form, sub(), draw(constants(STRINGS.filter(len))), draw(constants(STRINGS)))
        case "substr":
            numbers = (st.integers(-7, 7), st.integers(0, 7))
            return (form, sub(), *(draw(constants(n)) for n in numbers))
        case "negate" | "abs" | "floor" | "ceil" | "round1" | "sqrt" | "not" | "lower" | "upper" | "strip":
            return (form, sub())
        case "<" | "<=" | ">" | ">=":
            return (form, sub("number"), sub("number"))
    return (form, sub(), sub())


ROWS = st.fixed_dictionaries(
    {name: st.none() | NUMBERS | st.sampled_from([math.inf, -math.inf]) for name in NUMBER_COLUMNS}
    | {name: st.none() | STRINGS for name in STRING_COLUMNS}
)


def batch(rows):
    numbers = {name: column([row[name] for row in rows]) for name in NUMBER_COLUMNS}
    texts = {
        name: StringColumn(
            tf.constant([row[name] or "" for row in rows]), tf.constant([row[name] is not None for row in rows])
        )
        for name in STRING_COLUMNS
    }
    return numbers | texts


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["number", "string", "boolean"]).flatmap(trees), st.lists(ROWS, min_size=1, max_size=6))
def test_any_expression_against_python(tree, rows):
    try:
        expected = [reference(tree, row) for row in rows]
    except BelowNormal:
        assume(False)
    text = written(tree)
    expression = parse_expression(text)
    types = dict.fromkeys(NUMBER_COLUMNS, "number") | dict.fromkeys(STRING_COLUMNS, "string")
    result = compute_expression(expression, batch(rows))
    assert isinstance(result, StringColumn) == (check_types(expression, types) == "string")
    assert plain(result) == expected, text
