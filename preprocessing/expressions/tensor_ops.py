"""Derived columns in the graph: converts the tree of an expression to TensorFlow ops.

Values. Numbers, literals and all arithmetic are float32: `x == 0.1` is true if x is the float32 nearest to 0.1. A
boolean is float32 1 or 0. Missing numbers and booleans are NaN; a `StringColumn` marks the present strings. Any number
of columns may be mixed with constants; the result has the size of the batch. Texts are equal if they are the same
token: "7.0" == "7", "True" == "true".

Missing values:

* The result of an operator or function is missing if any of its arguments is missing. This includes comparisons: if x
  is missing, neither `x == y` nor `x != y` is true or false.
* `and`, `or`, `not` follow Kleene's three-valued logic: `false and missing` is false, `true or missing` is true, and
  any other result with a missing operand is missing. `a < b < c` is `a < b and b < c`.
* `where(c, a, b)` is missing if c is missing; a missing value that is not chosen does not matter. `coalesce` takes the
  first present value. `missing_if(a, c)` is missing if c is true or missing. `is_missing` is never missing.
* A result that is not a finite number is missing: division by zero, remainder by zero, log of 0 or less, square root of
  less than 0, a negative base with a fractional exponent, overflow. An infinite number in a column is missing too.

TensorFlow treats numbers below 1.2e-38 as 0, so dividing by such a number is dividing by zero.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.expressions.expression import Expression, split_arguments
from fullpass.preprocessing.expressions.functions import EARTH_RADIUS_KM, TABLE
from fullpass.preprocessing.expressions.number_text import LONGEST_NUMBER, NUMBER, number_text
from fullpass.preprocessing.expressions.past_ops import PAST, PastColumn
from fullpass.preprocessing.expressions.syntax_tree import (
    Call,
    ColumnReference,
    ComparisonChain,
    Constant,
    Membership,
    Node,
)
from fullpass.preprocessing.token_spelling import BOOLEANS, WHOLE_NUMBER

_MISSING = np.float32("nan")


class StringColumn(NamedTuple):
    """A string column with missing values.

    values: string [batch]; arbitrary where not present.
    present: bool [batch].
    """

    values: tf.Tensor
    present: tf.Tensor


Value: TypeAlias = tf.Tensor | StringColumn


@tf.autograph.experimental.do_not_convert
def compute_expression(expression: Expression, columns: Mapping[str, Value | PastColumn]) -> Value:
    """Computes a derived column.

    Args:
        expression: Accepted by `check_types` for these columns.
        columns: Number and boolean columns as float32 [batch] with NaN for missing, string columns as `StringColumn`,
            lists of a history as `PastColumn`; at least one, even if the expression reads none, because it determines
            the batch size.

    Returns:
        float32 [batch] with NaN for missing, 1 and 0 for true and false; or a `StringColumn`.

    Raises:
        UserError: A column that the expression reads is absent.
    """
    absent = sorted(expression.columns - columns.keys())
    if absent or not columns:
        raise UserError(
            f"expression {expression.text!r} cannot be computed: column {', '.join(absent) or 'of any name'} is "
            f"absent. Received: {', '.join(sorted(columns)) or 'no column'}."
        )
    # The column is chosen by name, because the order of the set of columns differs between processes, and the shape is
    # part of the graph that the keys of the analyzer cache are derived from.
    any_column = columns[min(columns)]
    if isinstance(any_column, PastColumn):
        shape = tf.cast(any_column.batch_size, tf.int32)[tf.newaxis]
    else:
        shape = tf.shape(any_column.values if isinstance(any_column, StringColumn) else any_column)
    result = _evaluate(expression.root, columns)
    if isinstance(result, StringColumn):
        return StringColumn(*(tf.broadcast_to(tensor, shape) for tensor in result))
    return tf.broadcast_to(result, shape)


def _evaluate(node: Node, columns: Mapping[str, Value | PastColumn]) -> Value:
    """Returns the value of a node: [batch], or a scalar if its subtree has no column."""
    match node:
        case ColumnReference():
            column = columns[node.name]
            if isinstance(column, PastColumn):
                raise UserError(f"column {node.name!r} is a list; a single value is required.")
            return column if isinstance(column, StringColumn) else _finite(column)
        case Constant():
            return _constant(node)
        case ComparisonChain():
            return _comparison(node, columns)
        case Membership():
            return _membership(node, columns)
    return _call(node, columns)


def _constant(node: Constant) -> Value:
    if isinstance(node.value, str):
        return StringColumn(tf.constant(node.value), tf.constant(True))
    return tf.constant(node.value, tf.float32)


def _call(node: Call, columns: Mapping[str, Value | PastColumn]) -> Value:
    function = TABLE[node.function]
    if function.reads_list:
        return _past(node, columns)
    evaluated, literals = split_arguments(node)
    arguments = [_evaluate(argument, columns) for argument in evaluated]
    if function.null_propagating:
        return _propagate_null(NULL_PROPAGATING[node.function], *arguments, literals=literals)
    return NULL_HANDLING[node.function](*arguments)


def _past(node: Call, columns: Mapping[str, Value | PastColumn]) -> Value:
    x = columns[node.arguments[0].name] if isinstance(node.arguments[0], ColumnReference) else None
    if not isinstance(x, PastColumn):
        raise UserError(f"{TABLE[node.function].signature}: the first argument is no list of data.history.")
    literals = (argument.value for argument in node.arguments[1:] if isinstance(argument, Constant))
    result = PAST[node.function](x, *(value if isinstance(value, str) else int(value) for value in literals))
    return StringColumn(result, tf.not_equal(result, "")) if result.dtype == tf.string else _finite(result)


def _comparison(node: ComparisonChain, columns: Mapping[str, Value | PastColumn]) -> tf.Tensor:
    operands = [_evaluate(operand, columns) for operand in node.operands]
    pairs = zip(node.operators, operands, operands[1:], strict=False)
    return _and(*(_propagate_null(NULL_PROPAGATING[operator], left, right) for operator, left, right in pairs))


def _membership(node: Membership, columns: Mapping[str, Value | PastColumn]) -> tf.Tensor:
    members = tf.stack([_values(_constant(member)) for member in node.members])
    return _propagate_null(NULL_PROPAGATING["in"], _evaluate(node.operand, columns), literals=[members])


def _propagate_null(
    op: Callable[..., tf.Tensor], *arguments: Value, literals: Sequence[str | int | tf.Tensor] = ()
) -> Value:
    """Runs `op` on plain tensors and literals; the result is missing where any argument is missing."""
    present = functools.reduce(tf.logical_and, map(_present, arguments))
    result = op(*map(_values, arguments), *literals)
    if result.dtype == tf.string:
        return StringColumn(result, present)
    return tf.where(present, _finite(tf.cast(result, tf.float32)), _MISSING)


def _values(value: Value) -> tf.Tensor:
    return value.values if isinstance(value, StringColumn) else value


def _present(value: Value) -> tf.Tensor:
    return value.present if isinstance(value, StringColumn) else tf.logical_not(tf.math.is_nan(value))


def token_tensor(texts: tf.Tensor, decimal: str = ".") -> tf.Tensor:
    """Returns texts with the spelling of their tokens; see `token_spelling`."""
    texts = tf.strings.regex_replace(texts, WHOLE_NUMBER[decimal], r"\1", replace_global=False)
    for token in dict.fromkeys(BOOLEANS.values()):
        others = "|".join(spelling for spelling, of in BOOLEANS.items() if of == token)
        texts = tf.strings.regex_replace(texts, f"^(?:{others})$", token, replace_global=False)
    return texts


def _equal(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.equal(token_tensor(a), token_tensor(b)) if a.dtype == tf.string else tf.equal(a, b)


def _finite(number: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.math.is_finite(number), number, _MISSING)


def _and(*operands: tf.Tensor) -> tf.Tensor:
    return functools.reduce(lambda a, b: tf.where(tf.equal(a, 0) | tf.equal(b, 0), np.float32(0), a * b), operands)


def _choose(first: tf.Tensor, a: Value, b: Value) -> Value:
    if isinstance(a, StringColumn) and isinstance(b, StringColumn):
        return StringColumn(tf.where(first, a.values, b.values), tf.where(first, a.present, b.present))
    return tf.where(first, a, b)


def _keep(kept: tf.Tensor, value: Value) -> Value:
    if isinstance(value, StringColumn):
        return StringColumn(value.values, value.present & kept)
    return tf.where(kept, value, _MISSING)


def _round(x: tf.Tensor, digits: int = 0) -> tf.Tensor:
    # x * 10**12 is exact in float64 for every float32 x, so ties are true ties.
    return tf.round(tf.cast(x, tf.float64) * 10.0**digits) / 10.0**digits


def _haversine(lat1: tf.Tensor, lon1: tf.Tensor, lat2: tf.Tensor, lon2: tf.Tensor) -> tf.Tensor:
    """Computes in float64. Source: Sinnott, Virtues of the Haversine, Sky and Telescope 68 (1984)."""
    on_earth = (tf.abs(lat1) <= 90) & (tf.abs(lat2) <= 90) & (tf.abs(lon1) <= 360) & (tf.abs(lon2) <= 360)
    phi1, lambda1, phi2, lambda2 = (tf.cast(x, tf.float64) * (np.pi / 180) for x in (lat1, lon1, lat2, lon2))
    across = tf.cos(phi1) * tf.cos(phi2) * tf.square(tf.sin((lambda2 - lambda1) / 2))
    chord = tf.square(tf.sin((phi2 - phi1) / 2)) + across
    distance = 2 * EARTH_RADIUS_KM * tf.asin(tf.sqrt(tf.minimum(chord, 1.0)))
    return tf.where(on_earth, tf.cast(distance, tf.float32), _MISSING)


def number_tensor(text: tf.Tensor, like: str | None = None) -> tf.Tensor:
    """Returns the numbers in texts as float32, NaN where there is none; see `number_text`."""
    text = tf.strings.strip(text)
    if like is None:
        return tf.cast(_number_of(text), tf.float32)
    form = number_text(like)
    fits = tf.strings.regex_full_match(text, form.pattern)
    for pattern, replacement in form.replacements:
        text = tf.strings.regex_replace(text, pattern, replacement)
    parts = [text]
    if len(form.units) > 1:
        parts = [tf.strings.regex_replace(text, *form.part(index)) for index in range(len(form.units))]
    number = functools.reduce(tf.add, [unit * _number_of(p) for unit, p in zip(form.units, parts, strict=True)])
    return tf.where(fits, tf.cast(number, tf.float32), _MISSING)


def _number_of(text: tf.Tensor) -> tf.Tensor:
    """Returns float64, as Python reads the text, so that all readers round once to the same float32."""
    fits = (tf.strings.length(text) <= LONGEST_NUMBER) & tf.strings.regex_full_match(text, NUMBER)
    return tf.where(fits, tf.strings.to_number(tf.where(fits, text, "0"), tf.float64), np.nan)


def _substr(text: tf.Tensor, start: int, length: int | None = None) -> tf.Tensor:
    size = tf.strings.length(text, unit="UTF8_CHAR")
    first = tf.maximum(size + start, 0) if start < 0 else tf.minimum(size, start)
    taken = size - first if length is None else tf.minimum(size - first, length)
    return tf.strings.substr(text, first, taken, unit="UTF8_CHAR")


def _replace(text: tf.Tensor, old: str, new: str) -> tf.Tensor:
    return tf.strings.regex_replace(text, re.escape(old), new.replace("\\", r"\\"))


def _matches(text: tf.Tensor, before: str, part: str, after: str) -> tf.Tensor:
    return tf.strings.regex_full_match(text, before + re.escape(part) + after)


_ANY_BYTES = r"\C*"  # RE2 single bytes, which also match text that is not UTF-8.

NULL_PROPAGATING: Mapping[str, Callable[..., tf.Tensor]] = MappingProxyType(
    {
        "not": lambda a: 1 - a,
        "==": _equal,
        "!=": lambda a, b: tf.logical_not(_equal(a, b)),
        "<": tf.less,
        "<=": tf.less_equal,
        ">": tf.greater,
        ">=": tf.greater_equal,
        "in": lambda value, members: tf.reduce_any(_equal(value[..., tf.newaxis], members), axis=-1),
        "+": tf.add,
        "-": tf.subtract,
        "*": tf.multiply,
        "/": tf.divide,
        "%": tf.math.floormod,
        "negate": tf.negative,
        "**": tf.pow,
        "abs": tf.abs,
        "sqrt": tf.sqrt,
        "exp": tf.exp,
        "log": tf.math.log,
        "log1p": tf.math.log1p,
        "floor": tf.floor,
        "ceil": tf.math.ceil,
        "round": _round,
        "pow": tf.pow,
        "clip": lambda x, low, high: tf.minimum(tf.maximum(x, low), high),
        "min": lambda *numbers: functools.reduce(tf.minimum, numbers),
        "max": lambda *numbers: functools.reduce(tf.maximum, numbers),
        "haversine": _haversine,
        "number": number_tensor,
        "lower": lambda text: tf.strings.lower(text, encoding="utf-8"),
        "upper": lambda text: tf.strings.upper(text, encoding="utf-8"),
        "strip": tf.strings.strip,
        "length": lambda text: tf.strings.length(text, unit="UTF8_CHAR"),
        "concat": lambda *texts: tf.strings.join(texts),
        "substr": _substr,
        "replace": _replace,
        "contains": lambda text, part: _matches(text, _ANY_BYTES, part, _ANY_BYTES),
        "starts_with": lambda text, part: _matches(text, "", part, _ANY_BYTES),
        "ends_with": lambda text, part: _matches(text, _ANY_BYTES, part, ""),
    }
)
"""Operations on values only; their result is missing where any argument is missing."""

NULL_HANDLING: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "and": _and,
        "or": lambda *operands: 1 - _and(*(1 - operand for operand in operands)),
        "where": lambda condition, a, b: _keep(_present(condition), _choose(tf.equal(condition, 1), a, b)),
        "coalesce": lambda *values: functools.reduce(lambda a, b: _choose(_present(a), a, b), values),
        "is_missing": lambda a: tf.cast(tf.logical_not(_present(a)), tf.float32),
        "missing_if": lambda a, condition: _keep(tf.equal(condition, 0), a),
    }
)
"""Operations that handle missing arguments themselves."""
