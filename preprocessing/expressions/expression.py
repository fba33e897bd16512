"""The expression language of derived columns: `parse_expression`, `check_types`, and the table for the manual.

    big_tipper: tips > 0.2 * fare
    rush_hour:  hour in (7, 8, 9) and not is_missing(`trip miles`)

Syntax and precedence are Python's, for: numbers, "strings", true, false, columns (in backticks if the name has other
characters than letters, digits, _ and dots), + - * / % **, comparisons and chains of them, in and not in, and, or, not,
and the functions of `function_table`. Nothing else is supported: no attributes, no indexing, no other calls.

Values are numbers (float32), strings and booleans, any of which may be missing; only functions `past_...` read lists.
`tensor_ops` computes the same tree in the graph and documents the rules for missing values.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fullpass.base.errors import did_you_mean, listed
from fullpass.preprocessing.expressions.functions import LISTS, TABLE, Function, Parameter, Type, function_table
from fullpass.preprocessing.expressions.parser import parse_expression
from fullpass.preprocessing.expressions.syntax_tree import (
    Call,
    ColumnReference,
    ComparisonChain,
    Constant,
    Expression,
    ExpressionError,
    Membership,
    Node,
    age_column,
    error_at,
    walk,
)

__all__ = [
    "Expression",
    "ExpressionError",
    "Type",
    "check_types",
    "counted_lists",
    "function_table",
    "lists_in",
    "parse_expression",
    "past_literals",
    "split_arguments",
]

_WANTED = {"number": "numbers", "string": "strings", "boolean": "conditions (true or false)"}
_CALLED = {"numbers": "list of numbers", "strings": "list of strings"}


def check_types(expression: Expression, column_types: Mapping[str, Type]) -> Type:
    """Returns the type of an expression over columns of the given types.

    Example:
        >>> check_types(parse_expression("tips > 0.2 * fare"), {"tips": "number", "fare": "number"})
        'boolean'

    Args:
        column_types: Types of all existing columns; "boolean" is for derived columns that are conditions.

    Raises:
        ExpressionError: A column is unknown, or an operator or function does not accept the type of a value.
    """
    return _Check(expression.text, column_types).type_of(expression.root)


def lists_in(expression: Expression) -> dict[str, str]:
    """Returns the lists of histories that an expression reads -> `number` if they must hold numbers, else `any`.

    Example:
        >>> lists_in(parse_expression("past_mean(trips.fare) / past_count(trips.shop)")) == {
        ...     "trips.fare": "number", "trips.shop": "any", "trips.at": "number"}
        True
    """
    found: dict[str, str] = {}
    for node, _ in walk(expression.root):
        if isinstance(node, Call) and (function := TABLE[node.function]).reads_list:
            for column in node.lists:
                found[age_column(column)] = "number"
                if function.parameters[0].type == "numbers":
                    found[column] = "number"
                found.setdefault(column, "any")
    return found


def counted_lists(expression: Expression) -> set[str]:
    """Returns the lists of histories whose different elements an expression counts.

    Example:
        >>> counted_lists(parse_expression("past_distinct(trips.shop) / past_count(trips.fare)"))
        {'trips.shop'}
    """
    calls = (node for node, _ in walk(expression.root) if isinstance(node, Call))
    return {column for call in calls if call.function == "past_distinct" for column in call.lists}


def split_arguments(call: Call) -> tuple[list[Node], list[str | int]]:
    """Returns the arguments of a call that are evaluated, and the values of those that must be literals."""
    function = TABLE[call.function]
    evaluated: list[Node] = []
    literals: list[str | int] = []
    for index, argument in enumerate(call.arguments):
        if isinstance(argument, Constant) and function.parameter(index).literal:
            literals.append(argument.value if isinstance(argument.value, str) else int(argument.value))
        else:
            evaluated.append(argument)
    return evaluated, literals


def past_literals(expression: Expression, parameter: str) -> list[tuple[str, str | float]]:
    """Returns the lists of histories whose functions are given a parameter, such as `within`, each with its value.

    Example:
        >>> past_literals(parse_expression('past_sum(trips.fare, "7d") / past_sum(trips.fare)'), "within")
        [('trips.fare', '7d')]
    """
    found: list[tuple[str, str | float]] = []
    for node, _ in walk(expression.root):
        if isinstance(node, Call):
            for index, argument in enumerate(node.arguments):
                if TABLE[node.function].parameter(index).name == parameter and isinstance(argument, Constant):
                    found += [(column, argument.value) for column in node.lists]
    return found


@dataclass(frozen=True)
class _Check:
    text: str
    column_types: Mapping[str, Type]

    def type_of(self, node: Node) -> Type:
        match node:
            case ColumnReference():
                return self._column(node)
            case Call():
                return self._call(node)
            case ComparisonChain():
                return self._comparison(node)
            case Membership():
                return self._membership(node)
        return _type_of_constant(node)

    def _column(self, node: ColumnReference) -> Type:
        if node.name not in self.column_types:
            raise error_at(
                self.text,
                node.position,
                f'Unknown column "{node.name}".{did_you_mean(node.name, self.column_types)} '
                f"Existing columns: {listed(sorted(self.column_types))}.",
            )
        found = self.column_types[node.name]
        if found in LISTS:
            raise error_at(self.text, node.position, f"{node.name} is a list; only functions past_... read it.")
        return found

    def _list(self, function: Function, parameter: Parameter, argument: Node) -> Type:
        found = self.column_types.get(argument.name) if isinstance(argument, ColumnReference) else None
        if found is None and isinstance(argument, ColumnReference):
            return self._column(argument)
        if found not in LISTS or parameter.type not in ("list", found):
            raise self._mismatch(function, parameter, argument, found or self.type_of(argument))
        return found

    def _call(self, node: Call) -> Type:
        function = TABLE[node.function]
        same: list[tuple[Node, Type]] = []
        element: Type = "numbers"
        for index, argument in enumerate(node.arguments):
            parameter = function.parameter(index)
            if parameter.literal:
                self._check_literal(function, parameter, argument)
                continue
            if function.reads_list:
                element = self._list(function, parameter, argument)
                continue
            received = self.type_of(argument)
            if parameter.type == "any":
                same.append((argument, received))
            elif not _fits(received, parameter.type):
                raise self._mismatch(function, parameter, argument, received)
        if function.result == "element":
            return "string" if element == "strings" else "number"
        shared = self._shared(function, same)
        return shared if function.result == "any" else function.result

    def _check_literal(self, function: Function, parameter: Parameter, argument: Node) -> None:
        if _is_literal(argument, parameter):
            wrong = parameter.wrong(str(argument.value)) if parameter.wrong and isinstance(argument, Constant) else ""
            if not wrong:
                return
            raise error_at(self.text, argument.position, f"In {function.signature}, {parameter.name} must be {wrong}.")
        wanted = f"a {parameter.type} literal"
        if parameter.bounds is not None:
            wanted = "a whole-number literal from {} to {}".format(*parameter.bounds)
        raise error_at(self.text, argument.position, f"In {function.signature}, {parameter.name} must be {wanted}.")

    def _comparison(self, node: ComparisonChain) -> Type:
        types = [self.type_of(operand) for operand in node.operands]
        for index, operator in enumerate(node.operators):
            function = TABLE[operator]
            pair = [(node.operands[i], types[i]) for i in (index, index + 1)]
            if function.parameters[0].type == "any":
                self._shared(function, pair)
                continue
            for operand, received in pair:
                if not _fits(received, "number"):
                    raise self._mismatch(function, function.parameters[0], operand, received)
        return "boolean"

    def _membership(self, node: Membership) -> Type:
        first = (node.operand, self.type_of(node.operand))
        for member in node.members:
            self._shared(TABLE["in"], [first, (member, _type_of_constant(member))])
        return "boolean"

    def _shared(self, function: Function, arguments: list[tuple[Node, Type]]) -> Type:
        """Returns the common type of arguments that must agree; booleans among numbers count as numbers."""
        types = {received for _, received in arguments}
        if "string" in types and len(types) > 1:
            first, type_of_first = arguments[0]
            other, type_of_other = next(a for a in arguments if (a[1] == "string") != (type_of_first == "string"))
            what = f"cannot {function.verb}" if function.verb else f"{function.signature} does not accept"
            raise error_at(
                self.text,
                other.position,
                f"{_capital(what)} {_described(first, type_of_first)} and {_described(other, type_of_other)}: "
                "they must have the same type. number(text) converts a string to a number.",
            )
        return "number" if len(types) > 1 else next(iter(types), "number")

    def _mismatch(self, function: Function, parameter: Parameter, argument: Node, received: Type) -> ExpressionError:
        found = _described(argument, received)
        what = f"Cannot {function.verb} {found}; " if function.verb else f"Received {found}; "
        where = function.signature if function.form else f"{function.signature}: {parameter.name}"
        wanted = _WANTED[parameter.type] if function.form else f"a {_CALLED.get(parameter.type, parameter.type)}"
        verb = "accepts" if function.form else "must be"
        hint = _hint(function, parameter.type, received)
        return error_at(self.text, argument.position, f"{what}{where} {verb} {wanted}.{hint}")


def _fits(received: Type, wanted: str) -> bool:
    return received == wanted or (wanted, received) == ("number", "boolean")


def _is_literal(argument: Node, parameter: Parameter) -> bool:
    if not isinstance(argument, Constant) or _type_of_constant(argument) != parameter.type:
        return False
    if parameter.bounds is None or isinstance(argument.value, str):
        return True
    low, high = parameter.bounds
    return low <= argument.value <= high and argument.value == int(argument.value)


def _type_of_constant(node: Constant) -> Type:
    if isinstance(node.value, bool):
        return "boolean"
    return "string" if isinstance(node.value, str) else "number"


def _hint(function: Function, wanted: str, received: Type) -> str:
    if function.name == "+":
        return " Join strings with concat(a, b)."
    if wanted in ("list", *LISTS):
        return " Name a list of data.history, such as trips.fare."
    if wanted == "boolean" and received == "number":
        return " Compare it, as in fare > 0."
    if wanted == "boolean" and received == "string":
        return ' Compare it, as in payment == "Cash".'
    if wanted == "number":
        return " number(text) converts a string to a number."
    return ""


def _described(node: Node, type: Type) -> str:
    match node:
        case ColumnReference():
            return f'{_CALLED.get(type, type)} "{node.name}"'
        case Constant(value=bool() as value):
            return str(value).lower()
        case Constant(value=str() as value):
            return f'string "{value}"'
        case Constant():
            return f"number {node.value:g}"
    return f"a {type}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:] if sentence.startswith("cannot") else sentence
