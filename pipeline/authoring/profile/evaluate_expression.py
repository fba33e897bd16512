"""Computes derived columns of a sample: evaluates an expression tree on NumPy arrays, by the rules of `tensor_ops`.

A number or condition is float32 [rows] with NaN for missing. Text is an object array [rows] with None for missing.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.preprocessing.expressions.expression import Expression, split_arguments
from fullpass.preprocessing.expressions.functions import EARTH_RADIUS_KM, TABLE
from fullpass.preprocessing.expressions.number_text import number_text, read_number
from fullpass.preprocessing.expressions.syntax_tree import (
    Call,
    ColumnReference,
    ComparisonChain,
    Constant,
    Membership,
    Node,
)
from fullpass.preprocessing.token_spelling import as_token

_SMALLEST_NORMAL = np.finfo(np.float32).tiny
_NOTHING = np.array(None, dtype=object)
_BLANKS = " \t\n\v\f\r"


def expression_input(values: ValueCounts, type: str) -> np.ndarray:
    """Returns a column for `evaluate_arrays`, [rows]: float32 for a number or boolean, objects for a string."""
    return values.row_texts if type == "string" else values.row_numbers.astype(np.float32)


def evaluate_arrays(expression: Expression, columns: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Returns a derived column, [rows].

    Args:
        expression: An expression that `check_types` has accepted for these columns.
        rows: Length of the result, for expressions that read no column.
    """
    with np.errstate(all="ignore"):
        result = _evaluate(expression.root, columns)
    return np.broadcast_to(result, rows)


def _evaluate(node: Node, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    match node:
        case ColumnReference():
            column = columns[node.name]
            return column if _is_text(column) else _finite(column.astype(np.float32))
        case Constant():
            return _constant(node)
        case ComparisonChain():
            operands = [_evaluate(operand, columns) for operand in node.operands]
            pairs = zip(node.operators, operands, operands[1:], strict=False)
            return functools.reduce(_and, [_propagate_null(NULL_PROPAGATING[name], [a, b]) for name, a, b in pairs])
        case Membership():
            operand = _evaluate(node.operand, columns)
            members = [_propagate_null(NULL_PROPAGATING["=="], [operand, _constant(member)]) for member in node.members]
            return functools.reduce(_or, members)
    return _call(node, columns)


def _constant(node: Constant) -> np.ndarray:
    return np.array(node.value, dtype=object if isinstance(node.value, str) else np.float32)


def _call(node: Call, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    function = TABLE[node.function]
    evaluated, literals = split_arguments(node)
    arguments = [_evaluate(argument, columns) for argument in evaluated]
    if not function.null_propagating:
        return NULL_HANDLING[node.function](*arguments)
    if (op := TEXT.get(node.function)) is not None:
        return _of_text(op, arguments, literals, gives_text=function.result == "string")
    return _propagate_null(NULL_PROPAGATING[node.function], arguments, literals)


def _propagate_null(
    op: Callable[..., np.ndarray], arguments: Sequence[np.ndarray], literals: Sequence[object] = ()
) -> np.ndarray:
    """Runs `op` on whole arrays; the result is missing where an argument is missing or the result is not finite."""
    present = functools.reduce(operator.and_, map(_present, arguments))
    return np.where(present, _finite(np.asarray(op(*arguments, *literals), dtype=np.float32)), np.float32("nan"))


def _of_text(
    op: Callable[..., object], arguments: Sequence[np.ndarray], literals: Sequence[object], *, gives_text: bool
) -> np.ndarray:
    """Runs `op` row by row; the result is missing where an argument is missing."""
    rows = np.broadcast_arrays(*arguments)
    results = [
        None if any(value is None for value in row) else op(*row, *literals)
        for row in zip(*(array.ravel() for array in rows), strict=True)
    ]
    shape = rows[0].shape
    if gives_text:
        return np.array(results, dtype=object).reshape(shape)
    return np.array([np.nan if r is None else r for r in results], dtype=np.float32).reshape(shape)


def _is_text(array: np.ndarray) -> bool:
    return array.dtype == object


def _present(array: np.ndarray) -> np.ndarray:
    return np.not_equal(array, _NOTHING) if _is_text(array) else ~np.isnan(array)


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compares numbers, or texts as tokens."""
    return np.asarray(_as_tokens(a) == _as_tokens(b), dtype=bool)


def _as_tokens(array: np.ndarray) -> np.ndarray:
    if not _is_text(array):
        return array
    tokens = [None if text is None else as_token(text) for text in array.ravel()]
    return np.array(tokens, dtype=object).reshape(array.shape)


def _finite(numbers: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(numbers), numbers, np.float32("nan"))


def _and(*operands: np.ndarray) -> np.ndarray:
    def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where((a == 0) | (b == 0), np.float32(0), a * b)

    return functools.reduce(both, operands)


def _or(*operands: np.ndarray) -> np.ndarray:
    return 1 - _and(*(1 - operand for operand in operands))


def _keep(kept: np.ndarray, value: np.ndarray) -> np.ndarray:
    if _is_text(value):
        return np.where(kept, value, _NOTHING)
    return np.where(kept, value, np.float32("nan"))


def _where(condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _keep(_present(condition), np.where(condition == 1, a, b))


def _haversine(lat1: np.ndarray, lon1: np.ndarray, lat2: np.ndarray, lon2: np.ndarray) -> np.ndarray:
    on_earth = (np.abs(lat1) <= 90) & (np.abs(lat2) <= 90) & (np.abs(lon1) <= 360) & (np.abs(lon2) <= 360)
    phi1, lambda1, phi2, lambda2 = (np.radians(x.astype(np.float64)) for x in (lat1, lon1, lat2, lon2))
    across = np.cos(phi1) * np.cos(phi2) * np.sin((lambda2 - lambda1) / 2) ** 2
    chord = np.sin((phi2 - phi1) / 2) ** 2 + across
    return np.where(on_earth, 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(chord, 1.0))), np.nan)


def _read_number(text: str, like: str | None = None) -> float | None:
    text = text.strip(_BLANKS)
    return read_number(text) if like is None else number_text(like).read(text)


def _substr(text: str, start: int, length: int | None = None) -> str:
    first = max(len(text) + start, 0) if start < 0 else start
    return text[first:] if length is None else text[first : first + length]


NULL_PROPAGATING: Mapping[str, Callable[..., np.ndarray]] = {
    "not": lambda a: 1 - a,
    "==": _equal,
    "!=": lambda a, b: ~_equal(a, b),
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda a, b: np.where(np.abs(b) < _SMALLEST_NORMAL, np.float32("nan"), a / b),
    "%": np.mod,
    "negate": np.negative,
    "**": np.power,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": lambda x, digits=0: np.round(x.astype(np.float64) * 10.0**digits) / 10.0**digits,
    "pow": np.power,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "min": lambda *numbers: functools.reduce(np.minimum, numbers),
    "max": lambda *numbers: functools.reduce(np.maximum, numbers),
    "haversine": _haversine,
}
"""Functions of whole arrays of numbers; the result is missing where an argument is missing."""

TEXT: Mapping[str, Callable[..., object]] = {
    "number": _read_number,
    "lower": str.lower,
    "upper": str.upper,
    "strip": lambda text: text.strip(_BLANKS),
    "length": len,
    "concat": lambda *texts: "".join(texts),
    "substr": _substr,
    "replace": str.replace,
    "contains": lambda text, part: part in text,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}
"""Functions of text, applied row by row; the result is missing where an argument is missing."""

NULL_HANDLING: Mapping[str, Callable[..., np.ndarray]] = {
    "and": _and,
    "or": _or,
    "where": _where,
    "coalesce": lambda *values: functools.reduce(lambda a, b: np.where(_present(a), a, b), values),
    "is_missing": lambda a: np.where(_present(a), np.float32(0), np.float32(1)),
    "missing_if": lambda a, condition: _keep(condition == 0, a),
}
"""Functions of whole arrays that handle missing arguments themselves."""
