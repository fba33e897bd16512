"""Writes the reference pages of `docs/` from the models, their docstrings, and the examples.

python -m fullpass.pipeline.reference.reference docs
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import jinja2

from fullpass.base.files import write_atomically
from fullpass.components.evaluation.measure.metrics import DEFAULT_METRICS, METRICS
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.pipeline.authoring.loading.json_schema import (
    Schema,
    common_tag,
    describe_forms,
    json_schema,
    resolve,
)
from fullpass.pipeline.authoring.loading.yaml_examples import EXAMPLES
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.preprocessing.dates.date_format import DIRECTIVES, PARTS, SPECIAL_FORMATS
from fullpass.preprocessing.expressions.expression import function_table
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.features.sequences import SequenceSpec
from fullpass.preprocessing.features.transforms import NumberTransform, VectorTransform
from fullpass.preprocessing.spec import SELECTED_BY, members_by_tag

_ELSEWHERE = {
    "features": "transforms.md",
    "sequences": "transforms.md#sequences",
    "crosses": "transforms.md#crosses",
    "data.derive": "expressions.md",
    "evaluation.metrics": "#metrics",
    "features.*.parts": "#dates",
    "features.*.transforms": "#transforms",
}
"""Paths that are documented elsewhere."""
_TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), undefined=jinja2.StrictUndefined)
_Row = tuple[str, str, str]
"""What a key accepts, its default, and its meaning."""
_HEAD = ["| key | accepted | default | meaning |", "|---|---|---|---|"]
_SHARED_HEAD = ["| key | of | accepted | default | meaning |", "|---|---|---|---|---|"]
_RESULTS = {"any": "as a", "element": "as an element of x"}
_PLAIN = re.compile(r"[A-Za-z][\w/-]*")
_SHORTER = {
    r"\ban? list(?: of at least 1)? \(each item: ((?:[^()]|\([^()]*\))*)\)": r"list of \1",
    r"\ban? list of at least (\d+) \(each item: ([^()]*)\)": r"list of at least \1: \2",
    r"\ban? list of exactly (\d+) \((.*)\)": r"list of \1: \2",
    r"\ba mapping of names, each to ": "mapping to ",
    r"\ba mapping with the key (\w+): [\w, ]*\w": r"mapping with \1",
    r"\ba mapping with the keys (?:\w+, ){5,}\w+": "mapping",
    r"\ba mapping with the keys? ": "mapping: ",
    r"\ban? (whole )?number of at least (\S+)": r"\1number ≥ \2",
    r"\ban? (whole )?number above (\S+)": r"\1number > \2",
    r" and at most (\d+)": r", ≤ \1",
    r" and below (\d+)": r", < \1",
    r"\ban? (whole )?number from ": r"\1number ",
    r"\ban import path such as ": "",
    r"\ba duration such as .*? or \w+": "duration",
    r"\bwhole number\b": "integer",
    r"\b(?:an?|the) (integer|number|mapping|list|name)\b": r"\1",
    r"list \(each item: ([^()]*)\)": r"list of \1",
    r"\btrue or false\b": "boolean",
}
"""Phrases of `describe_forms`, as regular expressions -> how tables write them; applied in this order."""

_FEW = 4
"""Number of keys up to which a mapping of the top level has no section of its own."""
_SHOWN_VALUES = ("data.joins", "data.history")
"""Mappings with keys of the user's whose values have a section."""


def pages() -> dict[str, str]:
    """Returns the text of each page by file name."""
    return {"config.md": config_page(), "transforms.md": transforms_page(), "expressions.md": expressions_page()}


def config_page() -> str:
    """Returns the page of all sections and keys of the YAML: type, default, meaning."""
    schema = json_schema()
    told = (
        (key, section)
        for key, section in schema["properties"].items()
        if key not in _ELSEWHERE and not _is_row(key, section, schema)
    )
    sections = [part for key, section in told for part in _sections(key, section, schema, level=2)]
    table = _table(schema, schema)
    return _page("config", exit_codes=[_exit_codes()], keys=[table], sections=sections, metrics=[_metrics()])


def transforms_page() -> str:
    """Returns the page of all feature types and transforms, and their shared keys."""
    schema = json_schema()
    defs = schema["$defs"]
    forms = _members(schema["properties"]["features"]["additionalProperties"], schema)
    shared, tables = _tables_of_forms(forms, schema, "features.*", "type")
    features = [shared]
    for name, form in zip(tables, forms, strict=True):
        features += [f"### {name}", form["description"], _yaml(FEATURE_TYPES[name].example), tables[name]]
    transforms = []
    for name, (form, example) in _transforms(schema).items():
        transforms += [f"### {name}", form["description"], _yaml(example), _table(form, schema, "features.*")]
    ids = []
    for name in ("Vocabulary", "Hash", "Identity", "Embedding"):
        ids += [f"### {name.lower()}", defs[name]["description"], _table(defs[name], schema, "features.*")]
    cross, sequence = defs["Cross"], defs["SequenceSpec"]
    example = f"sequences:\n{indent(SequenceSpec.example, '  ')}"
    return _page(
        "transforms",
        features=features,
        transforms=transforms,
        ids=ids,
        crosses=[cross["description"], _yaml(f"crosses: {EXAMPLES['crosses']}"), _table(cross, schema, "features.*")],
        sequences=[sequence["description"], _yaml(example), _table(sequence, schema, "features.*")],
        dates=list(_dates()),
    )


def expressions_page() -> str:
    """Returns the page of the expression language: syntax, missing values, functions."""
    alike: dict[tuple[str, str], list[str]] = {}
    for written, result, doc in function_table():
        alike.setdefault((result, doc), []).append(f"`{_cell(written)}`")
    rows = [
        f"| {', '.join(written)} | {_RESULTS.get(result, result)} | {_cell(doc)} |"
        for (result, doc), written in alike.items()
    ]
    return _page("expressions", functions=["\n".join(["| written | gives | |", "|---|---|---|", *rows])])


def write_pages(folder: Path) -> None:
    """Writes the pages into `folder`, each atomically."""
    for name, text in pages().items():
        write_atomically(folder / name, text)


def _exit_codes() -> str:
    rows = [f"| {code} | {code.short}. {code.__doc__} |" for code in ExitCode]
    return "\n".join(["| code | meaning |", "|---|---|", *rows])


def _sections(path: str, section: Schema, schema: Schema, *, level: int) -> Iterator[str]:
    """Yields heading, text, example and table of a section and of its subsections."""
    members = _members(section, schema)
    tag = common_tag(members) if len(members) > 1 else None
    if not members:
        lists = [form["items"] for form in resolve(section, schema) if isinstance(form.get("items"), dict)]
        for item in lists:
            yield from _sections(f"{path}[*]", item, schema, level=level)
        for item in _values(section, schema) if path in _SHOWN_VALUES else ():
            yield from _sections(f"{path}.*", item, schema, level=level)
        return
    yield f"{'#' * level} {path}"
    if path in EXAMPLES:
        name = path.rpartition(".")[2]
        yield _yaml(
            f"{name.removesuffix('[*]')}: [{EXAMPLES[path]}]" if name.endswith("[*]") else f"{name}: {EXAMPLES[path]}"
        )
    shared, tables = _tables_of_forms(members, schema, path, tag)
    if tag is not None:
        yield _forms(tag, members, tables)
    yield shared
    # A table above has the first paragraph: that of the forms, or of the section around this one, see `_meaning`.
    in_table = tag is not None or ("description" not in section and not path.endswith("[*]"))
    for (name, table), form in zip(tables.items(), members, strict=True):
        if tag is not None and not _is_table(table):
            continue
        if tag is not None:
            yield f"{'#' * (level + 1)} {path}, {tag}: {name}"
        text = form.get("description", "")
        yield text.partition("\n\n")[2] if in_table else text
        yield table
        for key, inner in form["properties"].items():
            # The formats of data.source, and mappings whose keys are rows of the table.
            if (path, key) != ("data.joins.*", "source") and not _is_row(f"{path}.{key}", inner, schema):
                yield from _sections(f"{path}.{key}", inner, schema, level=level + 1)
    for item in _values(section, schema):
        yield from _sections(f"{path}.*", item, schema, level=level + 1)


def _forms(tag: str, members: Sequence[Schema], tables: Mapping[str, str]) -> str:
    """Returns a table of the forms of a section; a form with at most one key of its own stands in it as a whole."""
    columns = ["read in parallel"] if tag == "format" else []
    lines = [f"| {' | '.join([f'`{tag}`', 'meaning', *columns])} |", f"|{'---|' * (2 + len(columns))}"]
    for (name, table), form in zip(tables.items(), members, strict=True):
        text = form.get("description", "")
        told = text.partition("\n\n")[0] if _is_table(table) else f"{text} {table}"
        more = [FORMATS[name].parts or "-"] if tag == "format" else []
        lines.append(f"| {' | '.join([f'`{name}`', _cell(told), *more])} |")
    return "\n".join(lines)


def _is_table(table: str) -> bool:
    return table.startswith("|")


def _is_leaf(field: Schema, schema: Schema) -> bool:
    """Returns whether a field is a mapping of one form whose values have no sections of their own."""
    members = _members(field, schema)
    inner = members[0]["properties"].values() if len(members) == 1 else ()
    return len(members) == 1 and all(_is_leaf(one, schema) or not _members(one, schema) for one in inner)


def _is_row(path: str, field: Schema, schema: Schema) -> bool:
    """Returns whether the keys of a mapping are rows of the table of the section around it."""
    top = "." not in path
    return _is_leaf(field, schema) and (not top or len(_members(field, schema)[0]["properties"]) <= _FEW)


def _values(section: Schema, schema: Schema) -> list[Schema]:
    """Returns the schemas of the values of a section that is a mapping with any keys."""
    forms = resolve(section, schema)
    return [form["additionalProperties"] for form in forms if isinstance(form.get("additionalProperties"), dict)]


def _members(section: Schema, schema: Schema) -> list[Schema]:
    """Returns the forms of a section that are mappings with fixed keys."""
    return [form for form in resolve(section, schema) if form.get("properties")]


def _transforms(schema: Schema) -> dict[str, tuple[Schema, str]]:
    """Returns the fields and an example of each transform; transforms of number features come first."""
    found: dict[str, tuple[Schema, str]] = {}
    for feature, union in (("NumberFeature", NumberTransform), ("VectorFeature", VectorTransform)):
        examples = {tag: spec.example or f"transforms: [{tag}]" for tag, spec in members_by_tag(union).items()}
        for form in _members(schema["$defs"][feature]["properties"]["transforms"]["items"], schema):
            (name,) = form["properties"]
            found.setdefault(name, (form["properties"][name], examples[name]))
    return found


def _tables_of_forms(forms: Sequence[Schema], schema: Schema, path: str, tag: str | None) -> tuple[str, dict[str, str]]:
    """Returns a table of the keys that several forms share, and for each form a table of its other keys.

    Args:
        forms: The forms of a section; a single form has all its keys in its own table.
        tag: The key that selects the form; None for one form.
    """
    rows = {form["properties"][tag]["const"] if tag else "": _rows(form, schema, path, tag) for form in forms}
    owners: dict[tuple[str, _Row], list[str]] = {}
    for name, of_form in rows.items():
        for row in of_form.items():
            owners.setdefault(row, []).append(name)
    common = {row: names for row, names in owners.items() if len(names) > 1}
    lines = [
        f"| `{key}` | {_forms_named(names, list(rows))} | {' | '.join(row)} |" for (key, row), names in common.items()
    ]
    shared = "\n".join(["Keys of several forms:\n", *_SHARED_HEAD, *lines]) if lines else ""
    tables = {}
    for name, of_form in rows.items():
        tables[name] = _as_table({key: row for key, row in of_form.items() if (key, row) not in common})
    return shared, tables


def _as_table(rows: Mapping[str, _Row]) -> str:
    """Returns rows as a table, and a single one as a sentence."""
    if len(rows) > 1:
        alike: dict[tuple[str, _Row], list[str]] = {}
        for key, row in rows.items():
            alike.setdefault((key.rpartition(".")[2] if "." in key else "", row), []).append(key)
        lines = [f"| {', '.join(f'`{key}`' for key in keys)} | {' | '.join(row)} |" for (_, row), keys in alike.items()]
        return "\n".join([*_HEAD, *lines])
    return "".join(
        f"`{key}`: {accepted}, {'required' if default == 'required' else f'by default {default}'}. {meaning}"
        for key, (accepted, default, meaning) in rows.items()
    )


def _forms_named(names: Sequence[str], forms: Sequence[str]) -> str:
    others = [form for form in forms if form not in names]
    if len(others) > len(names):
        return ", ".join(names)
    return f"all but {', '.join(others)}" if others else "all"


def _table(form: Schema, schema: Schema, path: str = "") -> str:
    return _tables_of_forms([form], schema, path, None)[1][""]


def _rows(form: Schema, schema: Schema, path: str, without: str | None) -> dict[str, _Row]:
    """Returns the table row of each key, and of the keys of mappings that have no section of their own."""
    required = form.get("required", [])
    rows: dict[str, _Row] = {}
    for key, field in form.get("properties", {}).items():
        if key == without:
            continue
        whole = not path.startswith("features.") and _is_row(f"{path}.{key}".strip("."), field, schema)
        rows[key] = (
            _cell(_type(f"{path}.{key}".strip("."), field, schema)),
            _default(field, key in required),
            _cell(_meaning(field, schema, whole=whole)),
        )
        if whole:
            [inner] = _members(field, schema)
            rows |= {f"{key}.{name}": row for name, row in _rows(inner, schema, f"{path}.{key}", None).items()}
    return rows


def _type(path: str, field: Schema, schema: Schema) -> str:
    if path in _ELSEWHERE:
        return f"[{_ELSEWHERE[path]}]({_ELSEWHERE[path]})"
    forms = list(resolve(field, schema))
    if all(form.get("properties") or form.get("type") == "null" for form in forms):
        return "mapping"
    by_default = "null" if field.get("default", "") is None else None
    words = describe_forms([form for form in forms if form.get("type") != by_default], schema)
    for phrase, shorter in _SHORTER.items():
        words = re.sub(phrase, shorter, words)
    return words


def _default(field: Schema, required: bool) -> str:
    if required:
        return "required"
    value = field.get("default", {})
    if tag := field.get(SELECTED_BY):
        value = {tag: value[tag]}
    # The table of a section shows its defaults.
    return "" if "$ref" in field else f"`{_flow(value)}`"


def _meaning(field: Schema, schema: Schema, *, whole: bool = False) -> str:
    """Returns the meaning of a field: its own docstring, or the first paragraph of the only mapping it accepts.

    Args:
        whole: Whether all paragraphs of the mapping count, because it has no section.
    """
    mappings = _members(field, schema)
    of_mapping = mappings[0].get("description", "") if len(mappings) == 1 else ""
    return str(field.get("description") or (of_mapping if whole else of_mapping.partition("\n\n")[0]))


def _flow(value: Any) -> str:
    """Returns a value as one line of YAML, without keys that have no value."""
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
    better = {"more is better": True, "less is better": False, "neither": None}
    lines = [f"| task | {' | '.join(better)} |", f"|{'---|' * (1 + len(better))}"]
    for task, usual in DEFAULT_METRICS.items():
        of_task = [(name, metric.higher_is_better) for name, metric in METRICS.items() if task in metric.tasks]
        cells = [
            ", ".join(f"**`{name}`**" if name in usual else f"`{name}`" for name, its in of_task if its is way)
            for way in better.values()
        ]
        lines.append(f"| {task} | {' | '.join(cell or '-' for cell in cells)} |")
    return "\n".join(lines)


def _dates() -> Iterator[str]:
    parts = [f"| `{name}` | {_cell(part.doc)} | {'yes' if part.period else 'no'} |" for name, part in PARTS.items()]
    yield "\n".join(["| part | meaning | repeats (`cyclic`) |", "|---|---|---|", *parts])
    special = ", ".join(f"`{name}`" for name in SPECIAL_FORMATS)
    yield f"Formats: {special}, or text with directives of Python's `strptime`:"
    alike: dict[str, list[str]] = {}
    for name, directive in DIRECTIVES.items():
        alike.setdefault(directive.doc, []).append(f"`{name}`")
    directives = [f"| {', '.join(names)} | {_cell(doc)} |" for doc, names in alike.items()]
    yield "\n".join(["| directive | meaning |", "|---|---|", *directives])


def _yaml(text: str) -> str:
    return f"```yaml\n{text.strip()}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _page(name: str, **sections: list[str]) -> str:
    joined = {key: "\n\n".join(part.strip() for part in parts if part.strip()) for key, parts in sections.items()}
    text = _TEMPLATES.get_template(f"{name}.md.jinja").render(joined)
    # Docstrings name Python's None; the pages describe YAML.
    return re.sub(r"\bNone\b", "null", text) + "\n"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
