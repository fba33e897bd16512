"""The JSON Schema of a pipeline file. Editors use it for completion and checks; error messages list its values."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fullpass.components.evaluation.measure.metrics import METRIC_PATTERNS, METRICS
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.config import PIPELINE_NAME, PipelineConfig
from fullpass.preprocessing.dates.date_format import PARTS
from fullpass.preprocessing.spec import DURATION, IMPORT_PATH, SELECTED_BY, VARIABLE

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""
_METRICS = {f"^{pattern}$": description for pattern, description in METRIC_PATTERNS.items()}
_PATTERNS = {
    **_METRICS,
    IMPORT_PATH: "an import path such as package.module:function",
    DURATION: "a duration such as 30s, 10m, 6h or 2d",
    VARIABLE: "the name of an environment variable",
    PIPELINE_NAME: "up to 63 lower-case letters, digits and inner dashes, such as taxi-tips",
}
_MOST_NAMES = 20
"""Number of keys that a message lists; the manual has all of them."""


def json_schema() -> Schema:
    """Returns the schema (draft 2020-12) of a pipeline file, including short forms.

    Example:
        >>> list(json_schema()["properties"])[:4]
        ['name', 'root', 'data', 'label']
    """
    schema = PipelineConfig.model_json_schema()
    defs = schema["$defs"]
    with_argument = [{"type": "string", "pattern": pattern} for pattern in _METRICS]
    metrics = {"anyOf": [{"type": "string", "enum": list(METRICS)}, *with_argument]}
    defs["EvaluationConfig"]["properties"]["metrics"]["items"] = metrics
    defs["EvaluationConfig"]["properties"]["thresholds"]["propertyNames"] = metrics
    defs["DateFeature"]["properties"]["parts"]["items"] = {"type": "string", "enum": list(PARTS)}
    for name, checked in defs.items():
        if "policy" in checked.get("properties", {}):  # a bare policy means the limits of a check
            defs[name] = {"anyOf": [checked, checked["properties"]["policy"]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Fullpass pipeline",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def schemas_at(root: Schema, keys: Keys, data: Any) -> list[Schema]:
    """Returns the forms accepted at `keys` that fit the value there, and all of them if none does.

    Args:
        data: The content of the file, which holds the type or kind that a mapping names.
    """
    return _fitting(forms_at(root, keys, data), value_at(data, keys))


def forms_at(root: Schema, keys: Keys, data: Any) -> list[Schema]:
    """Returns all forms accepted at `keys`; the types or kinds that the mappings around it name narrow them."""
    here = list(resolve(root, root))
    for i, key in enumerate(keys):
        children = _children(_fitting(here, value_at(data, keys[:i])), key)
        here = [form for child in children for form in resolve(child, root)]
    return here


def selected_by(root: Schema, keys: Keys, data: Any) -> str | None:
    """Returns the key that selects a form at `keys`; "" if the only key of a mapping does, None if nothing does.

    Args:
        data: As of `schemas_at`.
    """
    if not keys:
        return None
    children = _children(schemas_at(root, keys[:-1], data), keys[-1])
    fields = (part[SELECTED_BY] for child in children for part in _parts(child, root) if SELECTED_BY in part)
    return next(fields, None)


def accepted_keys(forms: Iterable[Schema]) -> list[str]:
    """Returns the keys that a mapping may hold in any of `forms`."""
    return list(dict.fromkeys(key for form in forms for key in form.get("properties", {})))


def accepted_words(forms: Iterable[Schema]) -> list[str]:
    """Returns the fixed words among `forms`."""
    values = (value for form in forms for value in form.get("enum", [form.get("const")]))
    return list(dict.fromkeys(value for value in values if isinstance(value, str)))


def accepted_names(forms: Iterable[Schema]) -> list[str]:
    """Returns the fixed words among `forms`, and the names of mappings written as {name: ...}, in order."""
    names = (name for form in forms for name in accepted_words([form]) or _sole_key(form))
    return list(dict.fromkeys(names))


def accepts(forms: Iterable[Schema], kind: str) -> bool:
    """Returns whether `forms` accept arbitrary values of a JSON type; a fixed list of words does not count."""
    return any(form.get("type") == kind and "enum" not in form and "const" not in form for form in forms)


def describe_forms(forms: Iterable[Schema], root: Schema) -> str:
    """Returns `forms` in words.

    Example:
        `"auto" or a whole number of at least 1`
    """
    forms = list(forms)
    parts = [f'"{word}"' for word in accepted_words(forms)]
    parts += [_describe_mappings(forms), *(_describe_one(form, root) for form in forms)]
    *earlier, last = dict.fromkeys(part for part in parts if part)
    return f"{', '.join(earlier)} or {last}" if earlier else last


def resolve(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yields the forms that a schema allows, with references and alternatives resolved."""
    return (part for part in _parts(schema, root) if not {"$ref", "anyOf", "oneOf"} & part.keys())


def _parts(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yields a schema, the schemas that it refers to, and its alternatives."""
    yield schema
    referred = [root["$defs"][schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else []
    for part in [*referred, *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        yield from _parts(part, root)


def tags_of(form: Schema) -> dict[str, str]:
    """Returns the keys of a form that have a single value, and the value: those that select it in a union."""
    return {key: field["const"] for key, field in form.get("properties", {}).items() if "const" in field}


def _fitting(forms: list[Schema], data: Any) -> list[Schema]:
    return [form for form in forms if _fits(form, data)] or forms


def _fits(form: Schema, data: Any) -> bool:
    tags = tags_of(form)
    if not isinstance(data, Mapping):
        return not isinstance(data, str) or not tags or data in tags.values()
    if form.get("type") != "object" or any(data.get(tag, word) != word for tag, word in tags.items()):
        return False
    return all(name in data for name in _sole_key(form))


def _sole_key(form: Schema) -> list[str]:
    """Returns the key of a form that is written as {name: ...}, like a transform."""
    keys = list(form.get("properties", {}))
    return keys if len(keys) == 1 and form.get("required") == keys else []


def _children(forms: Iterable[Schema], key: str | int) -> list[Schema]:
    return [child for form in forms if (child := _child(form, key)) is not None]


def _child(form: Schema, key: str | int) -> Schema | None:
    if isinstance(key, int):
        first = form.get("prefixItems", [])
        child = first[key] if key < len(first) else form.get("items")
    else:
        child = form.get("properties", {}).get(key, form.get("additionalProperties"))
    return child if isinstance(child, dict) else None


def value_at(data: Any, keys: Keys) -> Any:
    """Returns the value at `keys` in the content of a file; None if there is none."""
    for key in keys:
        if isinstance(data, Mapping):
            data = data.get(key)
        else:
            data = data[key] if isinstance(data, list) and isinstance(key, int) and key < len(data) else None
    return data


def _describe_mappings(forms: list[Schema]) -> str:
    """Returns one phrase that describes all mappings with fixed keys among `forms`."""
    mappings = [form for form in forms if form.get("properties")]
    if not mappings:
        return ""
    if tag := common_tag(mappings):
        return f"a mapping with the key {tag}: {', '.join(tags_of(form)[tag] for form in mappings)}"
    keys = accepted_keys(mappings)
    more = ", ..." if len(keys) > _MOST_NAMES else ""
    return f"a mapping with the key{'s' if len(keys) > 1 else ''} {', '.join(keys[:_MOST_NAMES])}{more}"


def common_tag(mappings: Iterable[Schema]) -> str | None:
    """Returns the key that distinguishes mappings with fixed keys, or None."""
    return min(set.intersection(*(set(tags_of(form)) for form in mappings)), default=None)


def _describe_one(form: Schema, root: Schema) -> str:
    kind = form.get("type")
    if "enum" in form or "const" in form:
        return " or ".join(str(value) for value in form.get("enum", []) if not isinstance(value, str))
    if form.get("properties"):
        return ""
    if kind == "string":
        return "one character" if form.get("maxLength") == 1 else _PATTERNS.get(form.get("pattern", ""), "text")
    if kind in ("integer", "number"):
        return _describe_number(form)
    if kind == "array":
        return _describe_list(form, root)
    if kind == "object":
        values = form.get("additionalProperties")
        inner = describe_forms(resolve(values, root), root) if isinstance(values, dict) else ""
        return f"a mapping of names, each to {inner}" if inner else "a mapping"
    return {"boolean": "true or false", "null": "null"}.get(str(kind), "anything")


def _describe_number(form: Schema) -> str:
    noun = "a whole number" if form["type"] == "integer" else "a number"
    low, high, above, below = (form.get(k) for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
    if low is not None and high is not None:
        return f"{noun} from {low:.10g} to {high:.10g}"
    end = f" and at most {high:.10g}" if high is not None else f" and below {below:.10g}" if below is not None else ""
    if above is not None:
        return f"{noun} above {above:.10g}{end}"
    return f"{noun} of at least {low:.10g}{end}" if low is not None else noun


def _describe_list(form: Schema, root: Schema) -> str:
    if "prefixItems" in form:
        items = [describe_forms(resolve(item, root), root) for item in form["prefixItems"]]
        return f"a list of exactly {len(items)} ({'; '.join(items)})"
    forms = list(resolve(form.get("items", {}), root))
    names = accepted_names(forms)
    inner = ", ".join(names) if names else describe_forms(forms, root)
    least = form.get("minItems", 0)
    return f"a list{f' of at least {least}' if least else ''} (each item: {inner})"
