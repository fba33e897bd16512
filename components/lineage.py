"""What made a model: spans, configuration, code, transform graph, metrics, gates and blessing, as one JSON object.

The Trainer writes into the export what the run says of itself; a push adds what was found out about the model since.
So a model that has left its pipeline still tells where it comes from.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ml_metadata import proto

from components.data_gate.config import COMPARISON_FILE
from components.described import description
from components.evaluation.config import EvaluationConfig
from components.evaluation.verdict import Verdict, read_verdict
from components.files import names_under, read_bytes
from components.push import LINEAGE
from components.recorded import ADDRESS, properties_of

EVALUATOR = "Evaluator"
GATES = {"comparison": "DataGate", "parity": "Parity", "serving": "ServingCheck"}
"""Input of the Pusher -> the node that decides by it."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """An artifact. uri: where its files are read. address: where it lies for everybody. properties: as recorded."""

    uri: str
    address: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Origins:
    """The artifacts that a model comes from and that were made of it. None: there is none, or not yet.

    Attributes:
        model: the Trainer's.
        examples: raw examples, one per span.
        transform_graph: that the model holds.
        evaluation: metrics of the model.
        blessing: of that evaluation, or of a person.
        gates: what else had to hold, by the node's name.
    """

    model: Made
    examples: Sequence[Made]
    transform_graph: Made | None
    evaluation: Made | None = None
    blessing: Made | None = None
    gates: Mapping[str, Made] = field(default_factory=dict)


def made(record: proto.Artifact) -> Made:
    """Returns an artifact as MLMD has it."""
    properties = properties_of(record)
    return Made(record.uri, properties.pop(ADDRESS, record.uri), properties)


def lineage_of(origins: Origins, facts: Mapping[str, Any], config: EvaluationConfig) -> Json:
    """Returns the lineage of a model.

    Args:
        origins: its artifacts; their folders are read.
        facts: `run`, `config` and `code` of the run that trained it, as far as they are known.
        config: says which metrics count.
    """
    verdict = None
    if origins.evaluation is not None and origins.blessing is not None:
        blessed = bool(origins.blessing.properties.get("blessed"))
        verdict = read_verdict(origins.evaluation.uri, config, blessed=blessed)
    return {
        "model": origins.model.address,
        "run": facts.get("run"),
        "config": facts.get("config"),
        "code": facts.get("code"),
        "spans": [_span(examples) for examples in sorted(origins.examples, key=_number)],
        "transform_graph": _graph(origins.transform_graph),
        **_judged(verdict, origins.blessing),
        "gates": {node: _decision(gate) for node, gate in sorted(origins.gates.items())},
    }


def facts_in_export(model_uri: str) -> Json:
    """Returns what the run told the Trainer, as the export of a model has it; nothing where it has not, or is gone."""
    return (description(model_uri) or {}).get(LINEAGE, {})


def _number(examples: Made) -> int:
    return int(examples.properties.get("span", 0))


def _span(examples: Made) -> Json:
    properties = examples.properties
    splits = json.loads(str(properties.get("split_names") or "[]"))
    return {
        "span": properties.get("label") or None,
        "number": _number(examples),
        "version": int(properties.get("version", 0)),
        "fingerprint": properties.get("fingerprint"),
        "rows_read": int(properties.get("rows_read", 0)),
        "rows_quarantined": int(properties.get("rows_quarantined", 0)),
        "rows": {split: int(properties.get(f"rows_{split}", 0)) for split in splits},
    }


def _graph(graph: Made | None) -> Json | None:
    return None if graph is None else {"uri": graph.address, "digest": folder_digest(f"{graph.uri}/transform_fn")}


def folder_digest(folder: str) -> str | None:
    """Returns 16 hex digits of all files of a folder, names and content; None if it is gone."""
    digest = hashlib.sha256()
    names = names_under(folder)
    for name in names:
        content = read_bytes(os.path.join(folder, name)) or b""
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16] if names else None


def _judged(verdict: Verdict | None, blessing: Made | None) -> Json:
    if verdict is None or blessing is None:
        return {"metrics": {}, "examples_evaluated": None, "baseline": None, "blessing": None}
    properties = blessing.properties
    against = properties.get("baseline_model")
    baseline = {m.metric: m.baseline for m in verdict.metrics if m.baseline is not None}
    forced = {name: properties[name] for name in ("by", "why", "at", "refused_for") if name in properties}
    return {
        "metrics": {m.metric: m.value for m in verdict.metrics},
        "examples_evaluated": verdict.examples,
        "baseline": {"model": against, "metrics": baseline} if against else None,
        "blessing": {"blessed": verdict.blessed, "by": EVALUATOR, **forced, "reasons": list(verdict.reasons)},
    }


def _decision(gate: Made) -> Json:
    """Returns what a gate recorded of itself, without what is TFX's own, and what the data gate found, in words."""
    recorded = {name: value for name, value in sorted(gate.properties.items()) if name not in _OF_TFX}
    comparison = read_bytes(f"{gate.uri}/{COMPARISON_FILE}")
    if comparison is None:
        return recorded
    findings = json.loads(comparison)["findings"]
    return recorded | {"found": [f"{finding['policy']}: {finding['text']}" for finding in findings]}


_OF_TFX = frozenset({"name", "producer_component", "pipeline_name", "state", "tfx_version", "is_external"})
