"""JSON text for files, messages and other programs. JSON has no NaN and no infinity, so these are written as null."""

import json
import math
from dataclasses import asdict, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import BeforeValidator, TypeAdapter

from fullpass.base.files import read_bytes

_T = TypeVar("_T")


def to_json_text(value: Any, **options: Any) -> str:
    """Returns a value as JSON text, with null for numbers that are not finite.

    Args:
        value: Dicts, lists, tuples, dataclasses, texts, numbers, booleans and None, at any depth.

    Example:
        >>> to_json_text({"auc": math.nan, "rows": (1, 2)})
        '{"auc": null, "rows": [1, 2]}'
    """
    try:
        return json.dumps(value, allow_nan=False, **{"default": asdict, **options})
    except ValueError:
        return json.dumps(finite(value), allow_nan=False, **options)


Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A number that is NaN where `to_json_text` has written null."""


def parse_json(shape: type[_T], text: str | bytes) -> _T:
    """Returns JSON text as a value of a type, such as a dataclass with tuples and other dataclasses.

    Example:
        >>> parse_json(tuple[Number, ...], "[0.5, null]")
        (0.5, nan)

    Raises:
        ValueError: The text is no JSON, or no value of this type.
    """
    adapter: TypeAdapter[_T] = _adapter(cast(Any, shape))
    return adapter.validate_json(text)


def read_parsed(shape: type[_T], path: str) -> _T | None:
    """Returns the content of a JSON file as a value of a type, or None if the file does not exist; see `parse_json`."""
    content = read_bytes(path)
    return None if content is None else parse_json(shape, content)


def parse_fields(shape: type[_T], fields: Any) -> _T:
    """Returns parsed JSON as a value of a type; see `parse_json`."""
    adapter: TypeAdapter[_T] = _adapter(cast(Any, shape))
    return adapter.validate_python(fields)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def finite(value: Any) -> Any:
    """Returns a value as `to_json_text` writes it: with None for numbers that are not finite, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {finite(key): finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value
