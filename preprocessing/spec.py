"""The base classes of all declared objects: frozen, strict, and selected in YAML by their tag.

Nothing here imports TensorFlow: specs are data, and checking a config must take well under a second.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Annotated, Any, ClassVar, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Strict,
    Tag,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

FLOAT32_MAX = 3.4028235e38
"""The largest number that a raw or transformed number can have."""


def _within_float32(value: float) -> float:
    if abs(value) > FLOAT32_MAX:
        raise ValueError(f"{value:g} is outside the range of float32: up to {FLOAT32_MAX:g} is accepted.")
    return value


# YAML has its own types: "3" is not 3 and `yes` is not 1, so numbers are not converted.
Real = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Float32 = Annotated[Real, AfterValidator(_within_float32)]
Count = Annotated[int, Strict(), Field(ge=1)]
NonNegative = Annotated[int, Strict(), Field(ge=0)]
Seed = Annotated[int, Strict(), Field(ge=0, le=2**32 - 1)]  # Keras and NumPy accept no other
Fraction = Annotated[float, Strict(), Field(ge=0, le=1)]
Flag = Annotated[bool, Strict()]
Name = Annotated[str, Field(min_length=1)]
IMPORT_PATH = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
ImportPath = Annotated[str, Field(pattern=IMPORT_PATH)]
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
EnvironmentVariable = Annotated[str, Field(pattern=VARIABLE)]
DURATION = r"^[0-9]{1,6}[smhd]$"
Duration = Annotated[str, Field(pattern=DURATION)]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def length(text: str) -> timedelta:
    """Returns the length of a Duration.

    Example:
        >>> length("90m")
        datetime.timedelta(seconds=5400)
    """
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


def microseconds(text: str) -> int:
    """Returns the length of a Duration in microseconds."""
    return length(text) // timedelta(microseconds=1)


def wrong_length(text: str) -> str:
    """Returns what is expected in place of a text that is no Duration; "" for a Duration."""
    return "" if re.fullmatch(DURATION, text) else "a number and a unit, such as 90m, 12h or 7d"


class Spec(BaseModel):
    """A frozen part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the schema, with attribute docstrings as descriptions."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in attribute_docs(cls).items():
            if name in properties:
                properties[name]["description"] = text
        return schema


class TaggedSpec(Spec):
    """A spec that the YAML selects by its tag: `log1p`, or `{clip: {min: 0}}` if it has fields."""

    tag: ClassVar[str]
    example: ClassVar[str] = ""
    """An example of the key `transforms:` for the reference pages; by default the bare tag."""

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, value: Any) -> Any:
        if value == cls.tag:
            return {}
        if isinstance(value, Mapping) and set(value) == {cls.tag}:
            inner = value[cls.tag]
            return {} if inner is None else inner
        return value

    @model_serializer(mode="wrap")
    def _wrap(self, serialize: SerializerFunctionWrapHandler) -> Any:
        fields = serialize(self)
        return {self.tag: fields} if fields else self.tag

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        fields = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core_schema, handler))
        written = {
            "type": "object",
            "properties": {cls.tag: fields},
            "required": [cls.tag],
            "additionalProperties": False,
        }
        if fields.get("required"):
            return written
        return {"anyOf": [{"const": cls.tag, "description": fields.get("description", "")}, written]}


def tag_of(value: Any) -> str | None:
    """Returns the tag of a spec in its YAML form: a bare word, or the only key of a mapping."""
    if isinstance(value, TaggedSpec):
        return value.tag
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        return str(next(iter(value)))
    return None


SELECTED_BY = "x-selected-by"
"""Key in the JSON Schema of a union: the field that selects the member; "" if the only key of a mapping does."""


@dataclass(frozen=True)
class SelectedBy:
    """The annotation of a union of models: each value is read as the member that its tag selects.

    Attributes:
        field: The field that holds the tag, a `Literal` in every member; None for a union of `TaggedSpec`s.
        bare: Whether the value may also be the bare tag, without other fields.

    Example: `Feature = Annotated[NumberFeature | CategoryFeature, SelectedBy("type", bare=True)]`
    """

    field: str | None = None
    bare: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema of the union."""
        members = tuple(Annotated[member, Tag(tag)] for tag, member in self.by_tag(source).items())
        return handler.generate_schema(Annotated[Union[members], Discriminator(self._tag)])  # noqa: UP007

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the JSON Schema of the union, marked as one, with bare tags for members that need no other key."""
        union = handler(core_schema)
        union[SELECTED_BY] = self.field or ""
        if self.bare:
            members = [handler.resolve_ref_schema(member) for member in union["oneOf"]]
            alone = (one["properties"] for one in members if {self.field}.issuperset(one.get("required", ())))
            words = [fields[self.field]["const"] for fields in alone]
            short = {"type": "string", "enum": words, "description": f"Short for {{{self.field}: ...}}."}
            union["oneOf"] = [*union["oneOf"], short]
        return union

    def by_tag(self, union: Any) -> dict[str, Any]:
        """Returns tag -> member of a union."""
        if self.field is None:
            return {member.tag: member for member in get_args(union)}
        tags = ((member, get_args(member.model_fields[self.field].annotation)) for member in get_args(union))
        return {tag: member for member, own in tags for tag in own}

    def _tag(self, value: Any) -> str | None:
        if self.field is None:
            return tag_of(value)
        if self.bare and isinstance(value, str):
            return value
        return value.get(self.field) if isinstance(value, Mapping) else getattr(value, self.field, None)


def members_by_tag(union: Any) -> dict[str, Any]:
    """Returns tag -> class of a union annotated with `SelectedBy`."""
    annotation = next(extra for extra in union.__metadata__ if isinstance(extra, SelectedBy))
    return annotation.by_tag(union.__origin__)


@cache
def attribute_docs(cls: type) -> Mapping[str, str]:
    """Returns attribute -> docstring, the string below it, for the annotated attributes of a class and of its bases.

    pydantic can read them too, but does so whenever a class is created, which takes a quarter of the time of `check`.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        module = inspect.getmodule(base)
        if module is not None and getattr(module, "__file__", "").endswith(".py"):
            found |= _of_module(module).get(base.__qualname__, {})
    return found


@cache
def _of_module(module: ModuleType) -> Mapping[str, Mapping[str, str]]:
    """Returns qualified class name -> attribute -> docstring."""
    return dict(_classes(ast.parse(inspect.getsource(module)), ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield name, dict(_documented(child.body))
            yield from _classes(child, f"{name}.")


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for attribute, text in zip(body, body[1:], strict=False):
        match attribute, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, inspect.cleandoc(words)
