"""Writes the reference pages of `docs/` from the models, their docstrings, and the examples.

python -m pipeline.reference docs
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.evaluation.metrics import DEFAULT_METRICS, METRICS
from pipeline import reference_text
from pipeline.json_schema import Schema, json_schema
from pipeline.loading.accepted import TAGS, describe, resolve
from pipeline.loading.examples import FEATURES, PLACES, TRANSFORMS
from preprocessing.dates import DIRECTIVES, PARTS, SPECIAL_FORMATS
from preprocessing.expression import function_table

_ELSEWHERE = {"features": "transforms.md", "crosses": "transforms.md#crosses", "derive": "expressions.md"}
"""Keys that have a page of their own."""
_PLAIN = re.compile(r"[A-Za-z][\w/-]*")


def pages() -> dict[str, str]:
    """Returns the text of each page by file name."""
    return {
        "config.md": config_page(),
        "transforms.md": transforms_page(),
        "expressions.md": expressions_page(),
    }


def config_page() -> str:
    """Returns every section and key of the YAML: type, default, meaning."""
    schema = json_schema()
    parts = [reference_text.CONFIG, _table(schema, schema)]
    for key, section in schema["properties"].items():
        if key not in _ELSEWHERE:
            parts += _sections(key, section, schema, level=2)
    return _joined([*parts, reference_text.METRICS, _metrics()])


def transforms_page() -> str:
    """Returns every feature type, transform, and what they share."""
    schema = json_schema()
    defs = schema["$defs"]
    parts = [reference_text.FEATURES]
    for form in _members(schema["properties"]["features"]["additionalProperties"], schema):
        name = form["properties"]["type"]["const"]
        parts += [f"### {name}", form["description"], _yaml(FEATURES[name]), _table(form, schema, without="type")]
    parts.append(reference_text.TRANSFORMS)
    for name, form in _transforms(schema).items():
        parts += [f"### {name}", form["description"], _yaml(TRANSFORMS[name]), _table(form, schema)]
    parts.append(reference_text.IDS)
    for name in ("Vocabulary", "Hash", "Identity", "Embedding"):
        parts += [f"### {name.lower()}", defs[name]["description"], _table(defs[name], schema)]
    parts += [reference_text.CROSSES, defs["Cross"]["description"], _yaml(f"crosses: {PLACES['crosses']}")]
    parts += [_table(defs["Cross"], schema), reference_text.DATES, *_dates()]
    return _joined(parts)


def expressions_page() -> str:
    """Returns the expression language: syntax, missing values, functions."""
    rows = [
        f"| `{_cell(written)}` | {result.replace('any', 'as a')} | {_cell(doc)} |"
        for written, result, doc in function_table()
    ]
    table = "\n".join(["| written | gives | |", "|---|---|---|", *rows])
    return _joined([reference_text.EXPRESSIONS, table])


def write(folder: Path) -> None:
    """Writes the pages into `folder`, each whole or not at all."""
    for name, text in pages().items():
        pending = folder / f".{name}.part"
        pending.write_text(text, encoding="utf-8")
        os.replace(pending, folder / name)


def _sections(path: str, section: Schema, schema: Schema, *, level: int) -> Iterator[str]:
    """Yields heading, text, example and table of a section and of those inside it."""
    members = _members(section, schema)
    tag = _tag(members) if len(members) > 1 else None
    if not members:
        lists = [form["items"] for form in resolve(section, schema) if isinstance(form.get("items"), dict)]
        for item in lists:
            yield from _sections(f"{path}[*]", item, schema, level=level)
        return
    yield f"{'#' * level} {path}"
    if len(members) > 1:
        yield f"One of several forms, told apart by `{tag}`."
    if path in PLACES:
        name = path.rpartition(".")[2]
        yield _yaml(
            f"{name.removesuffix('[*]')}: [{PLACES[path]}]" if name.endswith("[*]") else f"{name}: {PLACES[path]}"
        )
    for form in members:
        if tag is not None:
            yield f"{'#' * (level + 1)} {path}, {tag}: {form['properties'][tag]['const']}"
        yield form.get("description", "")
        yield _table(form, schema, without=tag)
        for key, inner in form["properties"].items():
            yield from _sections(f"{path}.{key}", inner, schema, level=level + 1)
    values = [f for f in resolve(section, schema) if isinstance(f.get("additionalProperties"), dict)]
    for form in values:
        yield from _sections(f"{path}.*", form["additionalProperties"], schema, level=level + 1)


def _members(section: Schema, schema: Schema) -> list[Schema]:
    """Returns the forms of a section that are mappings with fixed keys."""
    return [form for form in resolve(section, schema) if form.get("properties")]


def _tag(members: list[Schema]) -> str | None:
    return next((tag for tag in TAGS if all("const" in form["properties"].get(tag, {}) for form in members)), None)


def _transforms(schema: Schema) -> dict[str, Schema]:
    """Returns the fields of each transform, those of number features first."""
    found: dict[str, Schema] = {}
    for feature in ("NumberFeature", "VectorFeature"):
        for form in _members(schema["$defs"][feature]["properties"]["transforms"]["items"], schema):
            (name,) = form["properties"]
            found.setdefault(name, form["properties"][name])
    return found


def _table(form: Schema, schema: Schema, *, without: str | None = None) -> str:
    required = form.get("required", [])
    rows = [
        f"| `{key}` | {_cell(_type(key, field, schema))} | {_default(field, key in required)} "
        f"| {_cell(_meaning(field, schema))} |"
        for key, field in form.get("properties", {}).items()
        if key != without
    ]
    return "\n".join(["| key | accepted | default | meaning |", "|---|---|---|---|", *rows]) if rows else "No fields."


def _type(key: str, field: Schema, schema: Schema) -> str:
    if key in _ELSEWHERE:
        return f"[{_ELSEWHERE[key]}]({_ELSEWHERE[key]})"
    forms = resolve(field, schema)
    if all(form.get("properties") or form.get("type") == "null" for form in forms):
        return "a mapping, see there"
    return describe(forms, schema)


def _default(field: Schema, required: bool) -> str:
    if required:
        return "required"
    value = field.get("default", {})
    tag = next((tag for tag in TAGS if isinstance(value, dict) and tag in value), None)
    if tag is not None:
        value = {tag: value[tag]}
    # The defaults inside a section stand in its own table.
    return "" if "$ref" in field else f"`{_flow(value)}`"


def _meaning(field: Schema, schema: Schema) -> str:
    """Returns what a field is for: its own docstring, or the first line of the only mapping it takes."""
    mappings = _members(field, schema)
    of_mapping = mappings[0].get("description", "").partition("\n")[0] if len(mappings) == 1 else ""
    return str(field.get("description") or of_mapping)


def _flow(value: Any) -> str:
    """Returns a value as it would stand in YAML on one line; keys without a value are left out."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items() if inner is not None) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in ("null", "true", "false"):
        return value
    return json.dumps(value)


def _metrics() -> str:
    better = {True: "more", False: "less", None: "near 1"}
    rows = [
        f"| `{name}` | {', '.join(metric.tasks)} | {better[metric.higher_is_better]} | {metric.tfma} "
        f"| {', '.join(task for task, usual in DEFAULT_METRICS.items() if name in usual) or 'no'} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(
        ["| metric | tasks | better is | TFMA or Keras class | measured by default |", "|---|---|---|---|---|", *rows]
    )


def _dates() -> Iterator[str]:
    parts = [f"| `{name}` | {_cell(part.doc)} | {'yes' if part.period else 'no'} |" for name, part in PARTS.items()]
    yield "\n".join(["| part | meaning | repeats (`cyclic`) |", "|---|---|---|", *parts])
    yield f"Formats: {', '.join(f'`{name}`' for name in SPECIAL_FORMATS)}, or text with these directives:"
    directives = [f"| `{name}` | {_cell(directive.doc)} |" for name, directive in DIRECTIVES.items()]
    yield "\n".join(["| directive | meaning |", "|---|---|", *directives])


def _yaml(text: str) -> str:
    return f"```yaml\n{text.strip()}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _joined(parts: list[str]) -> str:
    text = "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"
    # The docstrings are Python's, the pages are about YAML.
    return re.sub(r"\bNone\b", "null", text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
