"""The lineage of a model as one JSON object: spans, configuration, code, transform graph, metrics, gates and blessing.

The Trainer writes the run, the configuration and the code into the export; a push adds the spans, metrics and verdicts.
The lineage of a model can therefore be read without its pipeline.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from fullpass.base.files import names_under, read_bytes
from fullpass.components.artifact_files import COMPARISON_FILE
from fullpass.components.evaluation.judge.verdict import JUDGED_BY, Verdict
from fullpass.components.ingest.writing.manifest import COUNTS, read_counts
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.components.push.push import LINEAGE, SERVING
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.trainer.export.export_files import read_description

EVALUATOR = "Evaluator"
GATES = {"comparison": "DataGate", "parity": "Parity", "serving": "ServingCheck"}
"""Input of the Pusher -> the gate that wrote it."""

Json = dict[str, Any]


def lineage_of(inputs: RunArtifacts, facts: Mapping[str, Any]) -> Json:
    """Returns the lineage of a model.

    Args:
        inputs: What its Pusher has as inputs, by their names: the model, the raw examples that it was trained on, one
            artifact per span, the transform graph, and the verdicts. Verdicts may be absent.
        facts: `run`, `occasion`, `config` and `code` of the run that trained the model, as far as they are known.
    """
    graph, gates = inputs.find("transform_graph"), {node: inputs.find(name) for name, node in GATES.items()}
    return {
        "model": inputs.all("model")[0].address,
        "run": facts.get("run"),
        "occasion": facts.get("occasion"),
        "config": facts.get("config"),
        "code": facts.get("code"),
        "spans": [_span_facts(examples) for examples in sorted(inputs.all("examples"), key=_span_number)],
        "transform_graph": graph and {"uri": graph.address, "digest": folder_digest(f"{graph.uri}/transform_fn")},
        **_evaluation_facts(inputs.verdict, inputs.find("blessing")),
        "gates": {node: _gate_facts(gate) for node, gate in sorted(gates.items()) if gate is not None},
    }


def facts_in_export(model_uri: str) -> Json:
    """Returns the facts about the run that the Trainer wrote into the export; empty if there are none."""
    return (read_description(f"{model_uri}/{SERVING}") or {}).get(LINEAGE, {})


def _span_number(examples: RecordedArtifact) -> int:
    return int(examples.properties.get("span", 0))


def _span_facts(examples: RecordedArtifact) -> Json:
    properties = examples.properties
    counts = read_counts(properties.get(COUNTS))
    return {
        "span": properties.get("label") or None,
        "number": _span_number(examples),
        "version": int(properties.get("version", 0)),
        "fingerprint": properties.get("fingerprint"),
        "source_rows": counts.rows_digest,
        "rows_read": counts.read,
        "rows_quarantined": counts.rows_quarantined,
        "joins": {join.name: {"files": join.files, "rows": join.table_rows} for join in counts.joins},
        "rows": dict(counts.written),
    }


def folder_digest(folder: str) -> str | None:
    """Returns 16 hex digits that identify the names and contents of a folder's files; None if it has no files."""
    digest = hashlib.sha256()
    names = names_under(folder)
    for name in names:
        content = read_bytes(os.path.join(folder, name)) or b""
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16] if names else None


def _evaluation_facts(verdict: Verdict | None, blessing: RecordedArtifact | None) -> Json:
    if verdict is None or blessing is None:
        return {"metrics": {}, "standard_errors": {}, "examples_evaluated": None, "baseline": None, "blessing": None}
    properties = blessing.properties
    against = properties.get("baseline_model")
    baseline = {m.metric: m.baseline for m in verdict.metrics if m.baseline is not None}
    blessed = bool(properties.get("blessed"))
    reasons = [] if blessed else list(verdict.reasons)
    by = properties.get(JUDGED_BY, EVALUATOR)
    forced = {name: properties[name] for name in ("by", "why", "at", "refused_for") if name in properties}
    return {
        "metrics": {m.metric: m.value for m in verdict.metrics},
        "standard_errors": {m.metric: m.error for m in verdict.metrics if not math.isnan(m.error)},
        "examples_evaluated": verdict.examples,
        "baseline": {"model": against, "metrics": baseline} if against else None,
        "blessing": {"blessed": blessed, "by": by, **forced, "reasons": reasons, "notes": list(verdict.notes)},
    }


def _gate_facts(gate: RecordedArtifact) -> Json:
    """Returns the properties that a gate recorded, without TFX's own; of the data gate also its findings, the stopped
    spans that were released, and those that are gaps."""
    recorded = {name: value for name, value in sorted(gate.properties.items()) if name not in _TFX_PROPERTIES}
    comparison = read_bytes(f"{gate.uri}/{COMPARISON_FILE}")
    if comparison is None:
        return recorded
    verdict = json.loads(comparison)
    stopped = {name: verdict[name] for name in ("released", "gaps") if verdict.get(name)}
    return recorded | {"found": [f"{f['policy']}: {f['text']}" for f in verdict["findings"]], **stopped}


_TFX_PROPERTIES = frozenset({"name", "producer_component", "pipeline_name", "state", "tfx_version", "is_external"})
