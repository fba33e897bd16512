"""A pipeline in small whose Pusher is the real one, and whose models are as good as a parameter says."""

import json
import sqlite3
from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Examples, Model, ModelBlessing, ModelEvaluation, TransformGraph

from fullpass.base import state_file
from fullpass.components.artifacts import ParityReport, ServingReport, SpanComparison
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.judge.verdict import FILE, verdict_json
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.push.component import Pusher
from fullpass.pipeline.record.events import RunResult, new_run_id
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.running.execution import runner

NAME = "toy"


def pipeline(root: Path, target: Path, auc: float, least: float = 0.8) -> Pipeline:
    """Makes a model of that AUC, which is blessed from `least` on."""
    data = Prepare()
    made = Make(**{name: data.outputs[name] for name in ("examples", "transform_graph")}, auc=auc)
    evaluator = Evaluator(model=made.outputs["model"], auc=auc, least=least)
    pusher = Pusher(
        **{name: data.outputs[name] for name in ("examples", "transform_graph", "comparison")},
        **{name: made.outputs[name] for name in ("model", "parity", "serving")},
        evaluation=evaluator.outputs["evaluation"],
        blessing=evaluator.outputs["blessing"],
        target=str(target),
        keep=2,
    )
    return Pipeline(
        pipeline_name=NAME,
        pipeline_root=str(root),
        components=[data, made, evaluator, pusher],
        enable_cache=True,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(root / "metadata.sqlite")),
    )


def run(root: Path, made: Pipeline) -> RunResult:
    """Runs a pipeline in its root as `fullpass run` does; every node must succeed."""
    claim_root(root, made.pipeline_info.pipeline_name)
    run_id = new_run_id()
    with locks.run_lock(root):
        result = runner.run(made, log_dir=root / "logs" / run_id, run_id=run_id)
    assert result.ok, [node.error for node in result.nodes]
    return result


def move_addresses(metadata: Path, before: Path, after: Path) -> None:
    """Makes the metadata of a copied root speak of the folder of the copy."""
    with sqlite3.connect(metadata) as database:
        database.execute("UPDATE Artifact SET uri = replace(uri, ?, ?)", (str(before), str(after)))
        for table in ("ExecutionProperty", "ArtifactProperty"):
            change = f"UPDATE {table} SET string_value = replace(string_value, ?, ?)"
            database.execute(change, (str(before), str(after)))


def write(folder: str, name: str, text: str) -> None:
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@component
def Prepare(
    examples: OutputArtifact[Examples],
    transform_graph: OutputArtifact[TransformGraph],
    comparison: OutputArtifact[SpanComparison],
):
    examples.split_names = '["train", "eval"]'
    examples.set_string_custom_property("fingerprint", "f1")
    write(transform_graph.uri, "transform_fn/saved_model.pb", "graph")
    write(comparison.uri, "comparison.json", json.dumps({"findings": []}))


@component
def Make(
    auc: Parameter[float],
    examples: InputArtifact[Examples],
    transform_graph: InputArtifact[TransformGraph],
    model: OutputArtifact[Model],
    parity: OutputArtifact[ParityReport],
    serving: OutputArtifact[ServingReport],
):
    write(model.uri, "Format-Serving/saved_model.pb", f"model of {auc}")
    write(model.uri, "Format-Serving/assets.extra/fullpass.json", state_file.encode({}).decode())
    write(parity.uri, "parity.json", "{}")
    write(serving.uri, "serving.json", "{}")


@component
def Evaluator(
    auc: Parameter[float],
    least: Parameter[float],
    model: InputArtifact[Model],
    evaluation: OutputArtifact[ModelEvaluation],
    blessing: OutputArtifact[ModelBlessing],
):
    config = EvaluationConfig.model_validate({"thresholds": {"auc": {"min": least}}})
    verdict = judge_metrics([MeasuredRows((), {"auc": auc, "example_count": 100.0})], config)
    write(evaluation.uri, FILE, verdict_json(verdict))
    blessing.set_int_custom_property("blessed", int(verdict.blessed))
    blessing.set_int_custom_property("current_model_id", model.id)
    blessing.set_string_custom_property("current_model", model.uri)
