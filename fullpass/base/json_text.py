"""JSON text for files, messages and other programs. JSON has no NaN and no infinity, so these are written as null."""

import json
import math
from typing import Any


def to_json_text(value: Any, **options: Any) -> str:
    """Returns a value as JSON text, with null for numbers that are not finite.

    Args:
        value: Dicts, lists, tuples, texts, numbers, booleans and None, at any depth.
        options: Options of `json.dumps`.

    Example:
        >>> to_json_text({"auc": math.nan, "rows": (1, 2)})
        '{"auc": null, "rows": [1, 2]}'
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(finite(value), allow_nan=False, **options)


def number_of(value: float | None) -> float:
    """Returns a number read from JSON; null is NaN."""
    return math.nan if value is None else value


def finite(value: Any) -> Any:
    """Returns a value as `to_json_text` writes it: with None for numbers that are not finite, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {finite(key): finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value
