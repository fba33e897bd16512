"""The JSON Schema of a pipeline file. Editors use it for completion and checks; error messages list its values."""

from typing import Any

from fullpass.components.evaluation.metrics import METRICS
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.dates.date_format import PARTS

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""


def json_schema() -> Schema:
    """Returns the schema (draft 2020-12) of a pipeline file, including short forms.

    Example:
        >>> list(json_schema()["properties"])[:4]
        ['name', 'root', 'data', 'label']
    """
    schema = PipelineConfig.model_json_schema()
    defs = schema["$defs"]
    _allow_bare(schema["properties"]["features"]["additionalProperties"], "type", defs)
    _allow_bare(defs["SequenceSpec"]["properties"]["columns"]["additionalProperties"], "type", defs)
    _allow_bare(schema["properties"]["model"], "kind", defs)
    metrics = {"type": "string", "enum": list(METRICS)}
    defs["EvaluationConfig"]["properties"]["metrics"]["items"] = metrics
    defs["EvaluationConfig"]["properties"]["thresholds"]["propertyNames"] = metrics
    defs["DateFeature"]["properties"]["parts"]["items"] = {"type": "string", "enum": list(PARTS)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Fullpass pipeline",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _allow_bare(union: Schema, tag: str, defs: Schema) -> None:
    """Adds the short form, a bare word, for every member of a union whose only required key is its tag."""
    members = [defs[member["$ref"].rpartition("/")[2]] for member in union["oneOf"]]
    words = [member["properties"][tag]["const"] for member in members if member["required"] == [tag]]
    union["oneOf"].append({"type": "string", "enum": words, "description": f"Short for {{{tag}: ...}}."})
