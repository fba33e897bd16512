import ast
import pickle
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.preprocessing.expressions.expression import ExpressionError, check_types, function_table, parse_expression
from fullpass.preprocessing.expressions.functions import FUNCTIONS, OPERATORS, TABLE
from fullpass.preprocessing.expressions.syntax_tree import Call, ColumnReference, ComparisonChain, Constant, Membership

LIST = "Expected a list of number or string literals in parentheses, as in `a in (1, 2)`. Compare columns with =="
TYPES = {"fare": "number", "tips": "number", "payment": "string", "trip miles": "number", "big": "boolean"}


def shape(node):
    """Returns the syntax tree without positions: ('+', 'a', 1.0)."""
    match node:
        case ColumnReference():
            return node.name
        case Constant():
            return [node.value]
        case Call():
            return (node.function, *map(shape, node.arguments))
        case ComparisonChain():
            return ("compare", node.operators, *map(shape, node.operands))
        case Membership():
            return ("in", shape(node.operand), *map(shape, node.members))


def tree(text):
    return shape(parse_expression(text).root)


PYTHON_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.And: "and",
    ast.Or: "or",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def python_shape(node):
    """Returns Python's own syntax tree of the same text in the same form."""
    match node:
        case ast.Name(id=name):
            return [name == "true"] if name in ("true", "false") else name
        case ast.Constant(value=value):
            return [value if isinstance(value, str) else float(value)]
        case ast.BoolOp(op=op, values=values):
            return (PYTHON_OPERATORS[type(op)], *map(python_shape, values))
        case ast.BinOp(left=left, op=op, right=right):
            return (PYTHON_OPERATORS[type(op)], python_shape(left), python_shape(right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ("not", python_shape(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = python_shape(operand)
            return [-inner[0]] if isinstance(inner, list) and isinstance(inner[0], float) else ("negate", inner)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=members)]):
            found = ("in", python_shape(left), *map(python_shape, members))
            return found if isinstance(op, ast.In) else ("not", found)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            names = tuple(PYTHON_OPERATORS[type(op)] for op in ops)
            return ("compare", names, *map(python_shape, (left, *comparators)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return (name, *map(python_shape, arguments))
    raise TypeError(ast.dump(node))


LEAVES = st.sampled_from(["a", "b", "_c1", "größe", "1", "2.5", ".5", "3.", "1e-3", "'x'", '"a b"', "true", "false"])
FORMS = [
    *(f"{{}} {operator} {{}}" for operator in PYTHON_OPERATORS.values()),
    "not {}",
    "-{}",
    "({})",
    "{} in (1, -2.5, 'z')",
    "{} not in (1, 2)",
    "where({}, {}, {})",
    "{} < {} <= {} != {}",
]


@st.composite
def longer(draw, texts):
    form = draw(st.sampled_from(FORMS))
    return form.format(*(draw(texts) for _ in range(form.count("{}"))))


TEXTS = st.recursive(LEAVES, longer, max_leaves=15)


@given(TEXTS)
def test_the_tree_is_the_one_python_reads(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            theirs = python_shape(ast.parse(text, mode="eval").body)
        except (SyntaxError, KeyError, TypeError):
            theirs = None  # not valid in Python, or valid in Python only
    try:
        ours = tree(text)
    except ExpressionError:
        ours = None
    assert ours == theirs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tips > 0.2 * fare", ("compare", (">",), "tips", ("*", [0.2], "fare"))),
        ("`trip miles` + `a``b`", None),
        ("`trip miles` + `in`", ("+", "trip miles", "in")),
        ("0 < a < 5", ("compare", ("<", "<"), [0.0], "a", [5.0])),
        ("a and b and c or not d", ("or", ("and", "a", "b", "c"), ("not", "d"))),
        ("-2 ** 2", ("negate", ("**", [2.0], [2.0]))),
        ("2 ** 3 ** -1", ("**", [2.0], ("**", [3.0], [-1.0]))),
        ("h in (7, -8,)", ("in", "h", [7.0], [-8.0])),
        ("h not in ('a')", ("not", ("in", "h", ["a"]))),
        ("round(\n  x,\t2 )", ("round", "x", [2.0])),
        (r"""'a\'b"\\\n\t'""", ["a'b\"\\\n\t"]),
        ("log", "log"),
        ("log + log(log)", ("+", "log", ("log", "log"))),
    ],
)
def test_trees(text, expected):
    if expected is None:
        with pytest.raises(ExpressionError):
            parse_expression(text)
    else:
        assert tree(text) == expected


def test_columns_are_all_names_read():
    text = "where(a > 0 and `b c` in (1, 2), lower(d), 'e') == concat(f, g)"
    assert parse_expression(text).columns == {"a", "b c", "d", "f", "g"}
    assert parse_expression("1 + 2").columns == set()
    assert parse_expression(text) == parse_expression(text)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("lgo1p(x) / y", "lgo1p", 'Unknown function "lgo1p". Did you mean "log1p"? Accepted: abs, sqrt'),
        ("x + __import__('os')", "__import__", 'Unknown function "__import__"'),
        ("x + negate(y)", "negate", 'Unknown function "negate"'),
        ("x .real", ".real", "Character '.' is not accepted here"),
        ("x[0]", "[", "Character '[' is not accepted here. Write `(`"),
        ("fare = 1", "=", "Write `==`"),
        ("a && b", "&&", "Write `and`"),
        ("a || b", "||", "Write `or`"),
        ("!a", "!", "Write `not`"),
        ("a ^ 2", "^", "Write `**`"),
        ("a ; b", ";", "Character ';' is not accepted here"),
        ("a + 'x", "'x", "This ' is not closed"),
        ("a + `x", "`x", "This ` is not closed"),
        (r"a == '\d'", r"\d", r"Unknown escape \d. Accepted: \\, \", \', \n, \t"),
        ("a AND b", "AND", 'Invalid syntax at `AND`. Did you mean "and"?'),
        ("a b", "b", "Invalid syntax at `b`"),
        ("2x", "x", "Invalid syntax at `x`"),
        ("a +", "", "Invalid syntax at the end"),
        ("", "", "Invalid syntax at the end"),
        ("a + * b", "* b", "Invalid syntax at `*`"),
        ("(a + b", "(", "'(' was never closed"),
        ("(a, b)", "(", "Invalid syntax at `(`"),
        ("a 'x' 'y'", "'x'", "Invalid syntax at `x`"),
        ("'x' 'y'", "'y'", "Invalid syntax at `y`"),
        ("+a", "+", "Invalid syntax at `+`"),
        ("log(*a)", "*", "Invalid syntax at `*`"),
        ("log(**a)", "log", "Invalid syntax at `log`"),
        ("log(x)(y)", "log", "Invalid syntax at `log`"),
        ("`log`(x)", "`log`", 'Unknown function "log"'),
        ("a + b)", ")", "Unmatched ')'"),
        ("a in b", "b", LIST),
        ("a in 1", "1", LIST),
        ("a in (true)", "true", LIST),
        ("a in (b)", "b)", LIST),
        ("a in ()", "(", LIST),
        ("a in (-'x')", "-'x", LIST),
        ("a not b", "b", "Invalid syntax at `b`"),
        ("a < b in (1)", "in", "Expected parentheses around the test before this, found `in`"),
        ("a in (1) == b", "==", "Expected parentheses around the test before this, found `==`"),
        ("a in (1) + b", "+", LIST),
        ("a == not b", "not", "Invalid syntax at `not`"),
        ("log()", ")", "log(x) needs at least 1 argument, found 0"),
        ("log(x, y)", "y", "log(x) accepts at most 1 argument, found 2"),
        ("min(x)", ")", "min(a, b, ...) needs at least 2 arguments, found 1"),
        ("round(x, 1, 2)", "2)", "round(x[, digits]) accepts at most 2 arguments, found 3"),
        ("min(x,)", ")", "min(a, b, ...) needs at least 2 arguments, found 1"),
        ("where x", "x", "Invalid syntax at `x`"),
        (
            "x / 1e39",
            "1e39",
            "Number 1e39 is outside the range of float32: 0, or 1.17549e-38 to 3.40282e+38, is accepted",
        ),
        ("x / 1e-39", "1e-39", "is outside the range of float32"),
        ("a > 1 if b else 2", "if", "Invalid syntax at `if`"),
        ("lambda: 0", ":", "Character ':' is not accepted here"),
    ],
)
def test_errors_point_at_the_character(text, at, expected):
    with pytest.raises(ExpressionError) as error:
        parse_expression(text)
    position = text.index(at) if at else len(text)
    message, shown, caret = str(error.value).split("\n")
    assert error.value.position == position
    assert expected in message
    assert (shown, caret) == (f"  {text}", f"  {' ' * position}^")


def test_long_text_is_shown_around_the_character():
    text = "a + " * 300 + "? + " + "a + " * 300 + "a"
    with pytest.raises(ExpressionError) as error:
        parse_expression(text)
    _, shown, caret = str(error.value).split("\n")
    assert shown.startswith("  ... a + a") and shown.endswith(" ...") and len(shown) < 120
    assert shown[caret.index("^")] == "?"
    assert error.value.position == 1200


def test_text_over_several_lines_is_shown_on_one():
    with pytest.raises(ExpressionError) as error:
        parse_expression("a +\n\tb + ?")
    assert str(error.value).endswith("\n  a +  b + ?\n           ^")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 201 + "a" + ")" * 201,
        "(" * 5000,
        "-" * 5000 + "a",
        "not " * 2000 + "a",
        "abs(" * 2000,
        "+".join("a" * 102),
        "+".join(["a"] * 4000),
        "(" * 60 + "+".join(["a"] * 60) + "".join("+ a)" for _ in range(60)),
        "2" + "**2" * 3000,
        "a" + " < (a" * 1500 + ")" * 1500,
    ],
)
def test_nesting_is_bounded_with_an_error(text):
    with pytest.raises(ExpressionError, match="Nested more than 100 levels deep.*in a derived column"):
        parse_expression(text)


def test_nesting_up_to_the_bound_is_accepted():
    assert check_types(parse_expression("+".join(["fare"] * 100)), TYPES) == "number"
    assert check_types(parse_expression("abs(" * 99 + "fare" + ")" * 99), TYPES) == "number"
    assert check_types(parse_expression(" or ".join(["big"] * 1400)), TYPES) == "boolean"
    assert check_types(parse_expression(f"fare in ({', '.join(map(str, range(1500)))})"), TYPES) == "boolean"


def test_length_is_bounded_with_an_error():
    assert parse_expression("a".ljust(10_000)).columns == {"a"}
    with pytest.raises(ExpressionError, match="Expression of 10001 characters; at most 10000"):
        parse_expression("a".ljust(10_001))


@given(st.text() | st.text("ab1.5+-*/%<>=!()', \"`notinadr\\"))
def test_any_text_is_an_expression_or_an_expression_error(text):
    try:
        expression = parse_expression(text)
    except ExpressionError as error:
        assert 0 <= error.position <= len(text)
        return
    try:
        assert check_types(expression, dict.fromkeys(expression.columns, "number")) in ("number", "string", "boolean")
    except ExpressionError as error:
        assert 0 <= error.position < len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fare", "number"),
        ("payment", "string"),
        ("big", "boolean"),
        ("tips > 0.2 * fare", "boolean"),
        ("log1p(`trip miles`) / fare", "number"),
        ("payment == 'Cash' and fare in (7, 8, 9)", "boolean"),
        ("payment not in ('Cash', 'Card')", "boolean"),
        ("0 < fare <= 5 != tips", "boolean"),
        ("where(fare > 0, payment, 'none')", "string"),
        ("where(big, big, not big)", "boolean"),
        ("where(big, big, fare)", "number"),
        ("(fare > 1) + (tips > 1) + true", "number"),
        ("-big", "number"),
        ("big == (fare > 1)", "boolean"),
        ("big == 1", "boolean"),
        ("big < 1", "boolean"),
        ("coalesce(fare, tips, 0)", "number"),
        ("missing_if(payment, is_missing(fare))", "string"),
        ("length(concat(lower(payment), 'x')) + number(payment)", "number"),
        ("substr(payment, -3, 2)", "string"),
        ("round(fare) + round(fare, 2)", "number"),
        ("contains(payment, 'a') or starts_with(payment, 'a') or ends_with(payment, 'a')", "boolean"),
        ("haversine(fare, fare, tips, tips)", "number"),
    ],
)
def test_types(text, expected):
    assert check_types(parse_expression(text), TYPES) == expected


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("2 * payment", "payment", 'Cannot multiply string "payment"; a * b accepts numbers'),
        ("payment / 2", "payment", 'Cannot divide string "payment"'),
        ("payment + 'x'", "payment", "Join strings with concat(a, b)"),
        ("fare - 'x'", "'x'", 'Cannot subtract string "x"'),
        ("-lower(payment)", "lower", "Cannot negate a string; -a accepts numbers"),
        ("payment < 'x'", "payment", 'Cannot order string "payment"; a < b accepts numbers'),
        ("0 < fare < payment", "payment", 'Cannot order string "payment"'),
        ("payment == 1", "1", 'Cannot compare string "payment" and number 1: they must have the same type'),
        ("1 != fare != payment", "payment", 'Cannot compare number "fare" and string "payment"'),
        ("big == 'yes'", "'yes'", 'Cannot compare boolean "big" and string "yes"'),
        ("payment in ('a', 2)", "2", 'Cannot look up string "payment" and number 2'),
        ("fare in (1, 'a')", "'a'", 'Cannot look up number "fare" and string "a"'),
        ("big and fare", "fare", "a and b accepts conditions (true or false). Compare it, as in fare > 0"),
        ("not payment", "payment", 'not a accepts conditions (true or false). Compare it, as in payment == "Cash"'),
        ("where(fare, 1, 2)", "fare", "where(condition, a, b): condition must be a boolean. Compare it"),
        ("where(big, 1, 'a')", "'a'", 'where(condition, a, b) does not accept number 1 and string "a"'),
        ("coalesce(payment, 'a', 0)", "0", 'does not accept string "payment" and number 0'),
        ("log(payment)", "payment", "log(x): x must be a number. number(text) converts a string to a number"),
        ("lower(fare)", "fare", 'Received number "fare"; lower(text): text must be a string'),
        ("contains(payment, payment)", "payment)", "part must be a string literal"),
        ("contains(payment, 1)", "1", "part must be a string literal"),
        ("round(fare, tips)", "tips", "digits must be a whole-number literal from 0 to 12"),
        ("round(fare, 1.5)", "1.5", "digits must be a whole-number literal from 0 to 12"),
        ("round(fare, 13)", "13", "digits must be a whole-number literal from 0 to 12"),
        ("round(fare, true)", "true", "digits must be a whole-number literal from 0 to 12"),
        ("substr(payment, 0, -1)", "-1", "length must be a whole-number literal from 0 to 1000000"),
        ("fair > 1", "fair", 'Unknown column "fair". Did you mean "fare"? Existing columns: big, fare, payment, tips'),
        ("`trip mile` > 1", "`trip", 'Unknown column "trip mile". Did you mean "trip miles"?'),
    ],
)
def test_type_errors_point_at_the_value(text, at, expected):
    with pytest.raises(ExpressionError) as error:
        check_types(parse_expression(text), TYPES)
    assert expected in str(error.value)
    assert error.value.position == text.index(at)


def test_a_long_list_of_columns_is_cut():
    with pytest.raises(ExpressionError, match=r"Existing columns: c000, c001.* and 80 more\."):
        check_types(parse_expression("x"), {f"c{n:03}": "number" for n in range(100)})


def test_an_error_survives_pickling():
    with pytest.raises(ExpressionError) as error:
        parse_expression("a + ?")
    copied = pickle.loads(pickle.dumps(error.value))
    assert (str(copied), copied.position) == (str(error.value), 4)


def test_the_table_holds_every_function_once_and_explains_it():
    assert not OPERATORS.keys() & FUNCTIONS.keys()
    assert all(name == function.name for name, function in TABLE.items())
    rows = {written: (result, doc) for written, result, doc in function_table()}
    assert len(rows) == len(TABLE)
    assert all(doc.endswith((".", ").")) for _, doc in rows.values())
    assert rows["a and b"][0] == rows["contains(text, part)"][0] == "boolean"
    assert {"round(x[, digits])", "min(a, b, ...)", "-a", "a in (1, 2, 3)", "coalesce(a, b, ...)"} <= rows.keys()


@pytest.mark.parametrize("function", TABLE.values(), ids=lambda function: function.name)
def test_the_written_form_of_every_function_parses_to_it(function):
    text = function.signature.replace("[", "").replace("]", "").replace(", ...", "")
    found = tree(text)
    assert found[0] == ("compare" if function.name in PYTHON_COMPARISONS else function.name)
    assert len(found) - 1 >= function.min_arguments


PYTHON_COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
