"""Converts validation errors of the config models into Problems: received value, accepted values, and the fix."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fullpass.base.errors import did_you_mean
from fullpass.pipeline.authoring.loading.json_schema import (
    Schema,
    accepted_keys,
    accepted_names,
    accepted_words,
    accepts,
    describe_forms,
    forms_at,
    schemas_at,
    selected_by,
    tags_of,
    value_at,
)
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path
from fullpass.pipeline.authoring.loading.yaml_examples import example_at
from fullpass.pipeline.authoring.loading.yaml_tree import Tree
from fullpass.pipeline.printing import shortened

_ABSENT = ("missing", "too_short")
"""Error types for a key that is not in the file; too_short applies if an absent key counts as an empty section."""
_NO_SUCH_FORM = ("union_tag_invalid", "union_tag_not_found")
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_SHOWN = 60
"""Number of characters of a received value that a message shows."""
_short = partial(shortened, most=_SHOWN)


@dataclass(frozen=True)
class _File:
    """The inputs of messages: the content of the file, the schema of such files, an example per path."""

    data: Any
    schema: Schema
    examples: Mapping[str, str]


def problems_of(error: ValidationError, tree: Tree, schema: Schema, examples: Mapping[str, str]) -> list[Problem]:
    """Returns the problems of the file that `error` contains, one per path."""
    file = _File(tree.data, schema, examples)
    found: dict[Keys, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        found.setdefault(_path(details, file), []).append(details)
    return [
        Problem(format_path(keys), tree.line(keys), _message(keys, details, file))
        for keys, details in found.items()
        if not _belongs_to_another_form(keys, details, found)
    ]


def received(value: Any) -> str:
    """Returns a value of a YAML file in words, shortened."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {_short(str(value))}"
    if isinstance(value, str):
        return f'text "{_short(value)}"'
    if isinstance(value, Mapping):
        return f"a mapping with the keys {_short(', '.join(value))}" if value else "an empty mapping"
    return f"a list of {len(value)}" if value else "an empty list"


def _path(details: ErrorDetails, file: _File) -> Keys:
    """Returns the path in the file: pydantic's path without the names of union members."""
    data = file.data
    keys: Keys = ()
    tagged: Keys | None = None
    last = len(details["loc"]) - 1
    for i, part in enumerate(details["loc"]):
        selector = _selector(keys, file)
        if keys != tagged and selector:
            tagged = keys
        elif _holds(data, part):
            data, keys = data[part], (*keys, part)
        elif selector == "" or (i == last and details["type"] in _ABSENT):
            data, keys = None, (*keys, part)
    selector = _selector(keys, file)
    if details["type"] in _NO_SUCH_FORM and selector and _holds(data, selector):
        return (*keys, selector)
    return keys


def _selector(keys: Keys, file: _File) -> str | None:
    return selected_by(file.schema, keys, file.data)


def _holds(data: Any, part: str | int) -> bool:
    if isinstance(data, Mapping):
        return part in data
    return isinstance(data, list) and isinstance(part, int) and part < len(data)


def _belongs_to_another_form(keys: Keys, details: list[ErrorDetails], found: Mapping[Keys, list[ErrorDetails]]) -> bool:
    """Returns whether keys below have their own problems, which make those of a single-value form irrelevant."""
    kept = {"missing", "extra_forbidden", "value_error"} & {d["type"] for d in details}
    return not kept and any(len(other) > len(keys) and other[: len(keys)] == keys for other in found)


def _message(keys: Keys, details: list[ErrorDetails], file: _File) -> str:
    kinds = {d["type"] for d in details}
    if "extra_forbidden" in kinds:
        return _unknown_key(keys, file)
    if "missing" in kinds or ("too_short" in kinds and not _holds(value_at(file.data, keys[:-1]), keys[-1])):
        forms = _not_null(schemas_at(file.schema, keys, file.data))
        return f"missing. Accepted: {describe_forms(forms, file.schema)}.{_example(keys, file)}"
    if kinds & set(_NO_SUCH_FORM):
        return _unknown_form(keys, value_at(file.data, keys), file)
    if (own := next((d for d in details if d["type"] == "value_error"), None)) is not None:
        return str(own["ctx"]["error"])
    if str(details[0]["loc"][-1]) == "[key]":
        return "a name must not be empty."
    return _wrong_value(keys, file)


def _wrong_value(keys: Keys, file: _File) -> str:
    value = value_at(file.data, keys)
    forms = _not_null(schemas_at(file.schema, keys, file.data))
    fix = _fix(value, forms)
    simple = not any(form.get("type") in ("object", "array") for form in forms)
    example = "" if fix or simple else _example(keys, file)
    empty = " (not empty)" if value == "" else ""
    return f"Received: {received(value)}. Accepted: {describe_forms(forms, file.schema)}{empty}.{fix}{example}"


def _fix(value: Any, forms: list[Schema]) -> str:
    words = accepted_words(forms)
    number = accepts(forms, "number") or accepts(forms, "integer")
    if isinstance(value, str):
        if number and _is_number(value):
            return " Remove the quotes."
        if accepts(forms, "boolean") and value.lower() in _BOOLEANS:
            return f" In YAML 1.2 that is text; write {_BOOLEANS[value.lower()]}."
        if did_you_mean(value, words):
            return did_you_mean(value, words)
    if accepts(forms, "string") and isinstance(value, bool | int | float) and (not number or isinstance(value, bool)):
        return " Put it in quotes."
    if accepts(forms, "array") and isinstance(value, str | int | float):
        return f" Write a list: [{_short(str(value))}]."
    if accepts(forms, "array") and isinstance(value, Mapping) and value:
        return " Begin each entry with a dash."
    if value is None:
        return " Give a value, or remove the key."
    return ""


def _unknown_key(keys: Keys, file: _File) -> str:
    accepted = accepted_keys(schemas_at(file.schema, keys[:-1], file.data))
    name = str(keys[-1])
    homes = [
        section
        for section in file.schema["properties"]
        if name in accepted_keys(schemas_at(file.schema, (section,), file.data))
    ]
    hint = did_you_mean(name, accepted) or (f" It belongs under {homes[0]}." if len(homes) == 1 else "")
    return f"unknown key.{hint} Accepted: {', '.join(accepted) or 'none'}."


_ALSO_CALLED = {
    "trees": ("xgboost", "lightgbm", "catboost", "gbdt", "gbm", "boosted_trees", "random_forest"),
    "mlp": ("dnn", "nn", "neural_network"),
    "linear": ("logistic", "logistic_regression", "linear_regression"),
}
"""Kind -> what other software calls it."""


def _unknown_form(keys: Keys, value: Any, file: _File) -> str:
    if _selector(keys, file) == "":
        noun = next(str(key).removesuffix("s") for key in reversed(keys) if isinstance(key, str))
        return _unknown_name(noun, value, accepted_names(schemas_at(file.schema, keys, file.data)))
    owner = keys if _selector(keys, file) else keys[:-1]
    tag = _selector(owner, file) or ""
    forms = forms_at(file.schema, owner, file.data)
    words = [tags[tag] for form in forms if tag in (tags := tags_of(form))]
    accepted = f"Accepted: {', '.join(words)}."
    if isinstance(value, str) and value not in words:
        meant = next((word for word in words if value.casefold() in _ALSO_CALLED.get(word, ())), value)
        return f'unknown {tag} "{_short(value)}".{did_you_mean(meant, words)} {accepted}'
    if isinstance(value, Mapping) and owner == keys:
        return f"the key {tag} is missing. {accepted}{_example(keys, file)}"
    return f"Received: {received(value)}. Accepted {tag}s: {', '.join(words)}.{_example(owner, file)}"


def _unknown_name(noun: str, value: Any, names: list[str]) -> str:
    if isinstance(value, Mapping) and len(value) > 1:
        return f"one {noun} per item. Received: {', '.join(value)}. Begin each with a dash of its own."
    name = next(iter(value), None) if isinstance(value, Mapping) else value
    if isinstance(name, str):
        return f'unknown {noun} "{_short(name)}".{did_you_mean(name, names)} Accepted: {", ".join(names)}.'
    return f"Received: {received(value)}. Accepted {noun}s: {', '.join(names)}."


def _not_null(forms: list[Schema]) -> list[Schema]:
    """Returns the forms except null, since omitting a key is simpler than null."""
    return [form for form in forms if form.get("type") != "null"]


def _example(keys: Keys, file: _File) -> str:
    example = example_at(keys, file.examples)
    return f" For example: {example}" if example else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
