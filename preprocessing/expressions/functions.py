"""Every function and operator of the expression language, in one table.

The parser uses its names and argument counts, and the type check uses its types. `tensor_ops` maps its names to graph
operations, and the manual prints it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from fullpass.preprocessing.expressions.number_text import wrong_like
from fullpass.preprocessing.spec import wrong_length

Type = Literal["number", "string", "boolean", "numbers", "strings"]
"""numbers and strings: a list of a history."""
LISTS: tuple[Type, ...] = ("numbers", "strings")
EARTH_RADIUS_KM = 6371.0088
"""Mean radius. Source: Moritz, Geodetic Reference System 1980, Journal of Geodesy 74 (2000)."""


@dataclass(frozen=True)
class Parameter:
    """The requirements of an argument.

    type: a boolean is accepted as a number (true is 1, false 0). All `any` arguments of a call have one type, which is
        also the type of the result if that is `any`. list: a list of numbers or of strings; `any` is no list.
    literal: the argument must be a literal, because it shapes the graph; the operation receives a Python value.
    bounds: for literal numbers: a whole number in this range, both ends included.
    wrong: for literal strings: returns what is expected in place of a string, and "" for an accepted one.
    repeats: for the last parameter only; it accepts any further arguments.
    """

    name: str
    type: Type | Literal["any", "list"]
    literal: bool = False
    bounds: tuple[int, int] | None = None
    wrong: Callable[[str], str] | None = None
    optional: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Function:
    """A function or operator.

    result: `element` is the type of the elements of a list.
    null_propagating: the result is missing if any argument is missing; `doc` describes the behavior of other functions.
    form: the syntax of an operator; empty for functions.
    verb: the verb of an operator for error messages: "cannot <verb> a string".
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | Literal["any", "element"]
    doc: str
    null_propagating: bool = True
    form: str = ""
    verb: str = ""

    @property
    def signature(self) -> str:
        """The syntax of a call: `a + b`, `round(x[, digits])`, `min(a, b, ...)`."""
        if self.form:
            return self.form
        text = ""
        for parameter in self.parameters:
            name = f", {parameter.name}" if text else parameter.name
            text += f"[{name}]" if parameter.optional else name
        return f"{self.name}({text}{', ...' if self.parameters[-1].repeats else ''})"

    @property
    def reads_list(self) -> bool:
        """Whether the first argument is a list of a history."""
        return bool(self.parameters) and self.parameters[0].type in ("list", *LISTS)

    @property
    def min_arguments(self) -> int:
        """The smallest number of arguments."""
        return sum(not parameter.optional for parameter in self.parameters)

    @property
    def max_arguments(self) -> int | None:
        """The largest number of arguments; None if there is no limit."""
        return None if self.parameters[-1].repeats else len(self.parameters)

    def parameter(self, index: int) -> Parameter:
        """Returns the parameter of the argument at `index`."""
        return self.parameters[min(index, len(self.parameters) - 1)]


_X = Parameter("x", "number")
_TEXT = Parameter("text", "string")
_PART = Parameter("part", "string", literal=True)
_CONDITION = Parameter("condition", "boolean")


def _numbers(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "number") for name in names)


def _two_or_more(type: Type | Literal["any"]) -> tuple[Parameter, ...]:
    return (Parameter("a", type), Parameter("b", type, repeats=True))


def _arithmetic(symbol: str, verb: str, doc: str) -> Function:
    return Function(symbol, _numbers("a", "b"), "number", doc, form=f"a {symbol} b", verb=verb)


def _order(symbol: str, doc: str) -> Function:
    return Function(symbol, _numbers("a", "b"), "boolean", doc, form=f"a {symbol} b", verb="order")


def _equality(symbol: str, doc: str) -> Function:
    either = (Parameter("a", "any"), Parameter("b", "any"))
    return Function(symbol, either, "boolean", doc, form=f"a {symbol} b", verb="compare")


def _search(name: str, doc: str) -> Function:
    return Function(name, (_TEXT, _PART), "boolean", doc)


def _past(name: str, doc: str, *more: Parameter, of: Type | Literal["list"] = "numbers") -> Function:
    parameters = (Parameter("x", of), *(more or (_WITHIN,)))
    return Function(name, parameters, "number", doc, null_propagating=False)


_WITHIN = Parameter("within", "string", literal=True, wrong=wrong_length, optional=True)

_EQUALITY = "Equality: strings byte for byte, numbers as float32."
_ORDER = "Order of numbers."
_ARITHMETIC = "Arithmetic."
_LOGIC = "Missing only if the result depends on a missing operand."
_OF_ELEMENTS = "Mean, smallest or largest element; missing if there are none."
_OF_PART = "Whether the text contains, begins with or ends with part; case-sensitive."

_OPERATORS = (
    Function("or", _two_or_more("boolean"), "boolean", _LOGIC, null_propagating=False, form="a or b"),
    Function("and", _two_or_more("boolean"), "boolean", _LOGIC, null_propagating=False, form="a and b"),
    Function("not", (Parameter("a", "boolean"),), "boolean", "Negation.", form="not a"),
    _equality("==", _EQUALITY),
    _equality("!=", _EQUALITY),
    _order("<", _ORDER),
    _order("<=", _ORDER),
    _order(">", _ORDER),
    _order(">=", _ORDER),
    Function(
        "in",
        (Parameter("a", "any"),),
        "boolean",
        "Equal to one of the listed literals; also `a not in (...)`.",
        form="a in (1, 2, 3)",
        verb="look up",
    ),
    _arithmetic("+", "add", _ARITHMETIC),
    _arithmetic("-", "subtract", _ARITHMETIC),
    _arithmetic("*", "multiply", _ARITHMETIC),
    _arithmetic("/", "divide", "Quotient; missing if b is 0."),
    _arithmetic("%", "take the remainder of", "Remainder, with the sign of b; missing if b is 0."),
    Function("negate", (Parameter("a", "number"),), "number", _ARITHMETIC, form="-a", verb="negate"),
    _arithmetic("**", "raise", "a to the power of b; missing if the result is not a real number."),
)

_FUNCTIONS = (
    Function("abs", (_X,), "number", "Absolute value."),
    Function("sqrt", (_X,), "number", "Square root; missing below 0."),
    Function("exp", (_X,), "number", "e to the power of x."),
    Function("log", (_X,), "number", "Natural logarithm; missing at 0 and below."),
    Function("log1p", (_X,), "number", "log(1 + x), exact near 0; missing at -1 and below."),
    Function("floor", (_X,), "number", "Largest whole number not above x."),
    Function("ceil", (_X,), "number", "Smallest whole number not below x."),
    Function(
        "round",
        (_X, Parameter("digits", "number", literal=True, bounds=(0, 12), optional=True)),
        "number",
        "Nearest number with `digits` decimals (default 0); ties round to the even digit.",
    ),
    Function("pow", _numbers("x", "y"), "number", "x ** y."),
    Function("clip", _numbers("x", "low", "high"), "number", "min(max(x, low), high)."),
    Function("min", _two_or_more("number"), "number", "Smallest or largest argument."),
    Function("max", _two_or_more("number"), "number", "Smallest or largest argument."),
    Function(
        "haversine",
        _numbers("lat1", "lon1", "lat2", "lon2"),
        "number",
        "Great-circle distance in km of two points in degrees, on a sphere of radius 6371.0088 km; missing for "
        "latitudes beyond 90 and longitudes beyond 360.",
    ),
    Function(
        "where",
        (_CONDITION, Parameter("a", "any"), Parameter("b", "any")),
        "any",
        "a where the condition is true, b where it is false, missing where it is missing.",
        null_propagating=False,
    ),
    Function("coalesce", _two_or_more("any"), "any", "The first argument that is not missing.", null_propagating=False),
    Function(
        "is_missing",
        (Parameter("a", "any"),),
        "boolean",
        "True where a is missing, else false; never missing itself.",
        null_propagating=False,
    ),
    Function(
        "missing_if",
        (Parameter("a", "any"), _CONDITION),
        "any",
        "a, but missing where the condition is true or missing: missing_if(age, age < 0).",
        null_propagating=False,
    ),
    Function(
        "number",
        (_TEXT, Parameter("like", "string", literal=True, wrong=wrong_like, optional=True)),
        "number",
        "The text as a decimal number (1.5, -2e3), without surrounding blanks; missing if the text is not a number or "
        'is longer than 31 characters. `like` is an example of how the numbers are written: "$1,234.5", "1.234,5 €", '
        '"12,34,567.5", "1 234,5", "1234.5%", "1234.5K" (also M, B, T), "1,234.5+", "1234.5 kg"; the signs around the '
        'digits may be absent, (5) is -5, and an apostrophe before the number is skipped. "1234.5-" has the minus '
        'behind the digits; "<1234.5" or "~1234.5" a sign before them, and <0.5 is 0.5; "1234.5±0.1" an uncertainty '
        'and "1234.5[1]" a note, which are left out. "2h 10m", "PT2H10M", "hh:mm", "hh:mm:ss" and "mm:ss" are '
        "durations in minutes, 5'11\" is a length in inches.",
    ),
    Function("lower", (_TEXT,), "string", "In lower or upper case (Unicode)."),
    Function("upper", (_TEXT,), "string", "In lower or upper case (Unicode)."),
    Function("strip", (_TEXT,), "string", "Text without leading and trailing ASCII blanks, tabs and line ends."),
    Function("length", (_TEXT,), "number", "Number of characters (Unicode code points)."),
    Function("concat", _two_or_more("string"), "string", "Concatenation of the strings."),
    Function(
        "substr",
        (
            _TEXT,
            Parameter("start", "number", literal=True, bounds=(-1_000_000, 1_000_000)),
            Parameter("length", "number", literal=True, bounds=(0, 1_000_000), optional=True),
        ),
        "string",
        "Characters from position start on (0 is the first, -1 the last), at most length.",
    ),
    Function(
        "replace",
        (_TEXT, Parameter("old", "string", literal=True), Parameter("new", "string", literal=True)),
        "string",
        "Text with every old replaced by new, from left to right.",
    ),
    _search("contains", _OF_PART),
    _search("starts_with", _OF_PART),
    _search("ends_with", _OF_PART),
    _past("past_count", "Number of present elements.", of="list"),
    _past("past_distinct", "Number of different elements; those of text are tokens (docs/sources.md).", of="list"),
    _past("past_sum", "Sum, 0 if there are none."),
    _past("past_mean", _OF_ELEMENTS),
    _past("past_min", _OF_ELEMENTS),
    _past("past_max", _OF_ELEMENTS),
    _past(
        "past_decayed_mean",
        "Mean of the elements, whose weight halves with every `half_life` of their age; missing if there are none.",
        Parameter("half_life", "string", literal=True, wrong=wrong_length),
    ),
    Function(
        "past_last",
        (Parameter("x", "list"), Parameter("lag", "number", literal=True, bounds=(1, 65_536), optional=True)),
        "element",
        "The element of the last event, or with lag 2 of the one before it; missing if there is none. "
        "past_last(trips.at) is the number of seconds since the last event.",
        null_propagating=False,
    ),
)

OPERATORS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _OPERATORS})
FUNCTIONS: Mapping[str, Function] = MappingProxyType({function.name: function for function in _FUNCTIONS})
TABLE: Mapping[str, Function] = MappingProxyType({**OPERATORS, **FUNCTIONS})


def function_table() -> tuple[tuple[str, str, str], ...]:
    """Returns the table for the manual: (syntax, type of the result, description), operators first."""
    return tuple((function.signature, function.result, function.doc) for function in TABLE.values())
