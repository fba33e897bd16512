"""Finds the input columns and types of derived columns before any data is read."""

from collections.abc import Mapping

from fullpass.base.errors import UserError
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns
from fullpass.preprocessing.expressions.expression import (
    Expression,
    ExpressionError,
    Type,
    check_types,
    parse_expression,
)
from fullpass.preprocessing.features.history import history_of


def parsed(derive: Mapping[str, str]) -> tuple[dict[str, Expression], dict[str, ExpressionError]]:
    """Returns the expressions of derived columns by name, and the errors of those that do not parse."""
    expressions: dict[str, Expression] = {}
    errors: dict[str, ExpressionError] = {}
    for name, text in derive.items():
        try:
            expressions[name] = parse_expression(text)
        except ExpressionError as error:
            errors[name] = error
    return expressions, errors


def known_raw_columns(config: PipelineConfig) -> dict[str, RawColumn]:
    """Returns the raw columns that the file reads, without unparsable expressions; empty if columns conflict."""
    expressions, _ = parsed(config.data.derive)
    usable = {name: config.data.derive[name] for name in expressions}
    try:
        return raw_columns(config.preprocessing_config.model_copy(update={"derive": usable}))
    except UserError:
        return {}


def raw_types(config: PipelineConfig) -> dict[str, Type]:
    """Returns the types that expressions see of the known columns that they can read."""
    types: dict[str, Type] = {}
    for name, column in known_raw_columns(config).items():
        if history_of(name, config.data.history) is not None:
            types[name] = "numbers" if column.type == "number" else "strings"
        elif column.is_single and column.type != "vector":
            types[name] = column.type
    return types


def type_error(expression: Expression, types: Mapping[str, Type]) -> ExpressionError | None:
    """Returns the error of an expression whose types do not fit; None if they do."""
    try:
        check_types(expression, types)
    except ExpressionError as error:
        return error
    return None


def derived_types(config: PipelineConfig) -> tuple[dict[str, Type], dict[str, ExpressionError]]:
    """Returns the types of derived columns by name, and the errors of those whose types do not fit.

    A column is in neither if it does not parse, or if it reads a column of unknown type.
    """
    types = raw_types(config)
    expressions, _ = parsed(config.data.derive)
    errors: dict[str, ExpressionError] = {}
    for name, expression in expressions.items():
        if expression.columns <= types.keys():
            try:
                types[name] = check_types(expression, types)
            except ExpressionError as error:
                errors[name] = error
    return {name: types[name] for name in expressions if name in types}, errors
