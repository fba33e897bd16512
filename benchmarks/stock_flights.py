"""Runs the pipeline of benchmarks/flights_run.yaml with stock TFX components; bench_run measures this process.

    python -m benchmarks.stock_flights DIRECTORY --data FOLDER --train ROWS --eval ROWS
    python -m benchmarks.stock_flights DIRECTORY

The first command runs the pipeline on the folders train and eval of FOLDER, as written by flight_rows.py, with all
outputs under DIRECTORY. The second prints the results of that run as one JSON object: wall seconds, CPU seconds and
peak memory of every node, rows, metrics, and whether the model is blessed and pushed.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import tensorflow_data_validation as tfdv
import tensorflow_model_analysis as tfma
from tfx import v1 as tfx
from tfx.orchestration.portable import launcher

from benchmarks.stock_flights_model import BATCH, LABEL
from fullpass.preprocessing.internals.prism import without_prism

MODEL = "benchmarks.stock_flights_model"
EPOCHS = 4
METRICS = {"auc": "AUC", "auc_pr": "AUCPrecisionRecall", "log_loss": "BinaryCrossEntropy", "calibration": "Calibration"}
LEAST_AUC = 0.5
USAGE = "usage.json"


def build_pipeline(data: Path, directory: Path, rows: dict[str, int]) -> tfx.dsl.Pipeline:
    """Returns the pipeline on `data`; the rows per split determine the training and eval steps."""
    splits = [tfx.proto.Input.Split(name=name, pattern=f"{name}/*") for name in rows]
    example_gen = tfx.components.CsvExampleGen(input_base=str(data), input_config=tfx.proto.Input(splits=splits))
    examples = example_gen.outputs["examples"]
    statistics_gen = tfx.components.StatisticsGen(examples=examples)
    statistics = statistics_gen.outputs["statistics"]
    schema_gen = tfx.components.SchemaGen(statistics=statistics)
    schema = schema_gen.outputs["schema"]
    validator = tfx.components.ExampleValidator(statistics=statistics, schema=schema)
    transform = tfx.components.Transform(examples=examples, schema=schema, preprocessing_fn=f"{MODEL}.preprocessing_fn")
    steps = {name: -(-count // BATCH) for name, count in rows.items()}
    trainer = tfx.components.Trainer(
        run_fn=f"{MODEL}.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=tfx.proto.TrainArgs(num_steps=EPOCHS * steps["train"]),
        eval_args=tfx.proto.EvalArgs(num_steps=steps["eval"]),
        custom_config={"epochs": EPOCHS},
    )
    model = trainer.outputs["model"]
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("LastBlessedModel")
    evaluator = tfx.components.Evaluator(
        examples=examples, model=model, baseline_model=resolver.outputs["model"], eval_config=eval_config()
    )
    folder = tfx.proto.PushDestination.Filesystem(base_directory=str(directory / "serving"))
    pusher = tfx.components.Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(filesystem=folder),
    )
    metadata = tfx.orchestration.metadata.sqlite_metadata_connection_config(str(directory / "metadata.db"))
    return tfx.dsl.Pipeline(
        beam_pipeline_args=without_prism(),
        pipeline_name="stock_flights",
        pipeline_root=str(directory / "runs"),
        components=[
            example_gen, statistics_gen, schema_gen, validator, transform, trainer, resolver, evaluator, pusher
        ],
        metadata_connection_config=metadata,
    )  # fmt: skip


def eval_config() -> tfma.EvalConfig:
    """Returns the metrics, the slices and the threshold of flights_run.yaml."""
    least = tfma.MetricThreshold(value_threshold=tfma.GenericValueThreshold(lower_bound={"value": LEAST_AUC}))
    on_all = tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=least)
    metrics = [tfma.MetricConfig(class_name="ExampleCount", config='{"name": "rows"}')]
    for name, kind in METRICS.items():
        thresholds = [on_all] if name == "auc" else []
        config = json.dumps({"name": name})
        metrics.append(tfma.MetricConfig(class_name=kind, config=config, per_slice_thresholds=thresholds))
    spec = tfma.ModelSpec(
        signature_name="serving_default", label_key=LABEL, preprocessing_function_names=["transform_features"]
    )
    return tfma.EvalConfig(
        model_specs=[spec],
        slicing_specs=[tfma.SlicingSpec(feature_keys=keys) for keys in ([], ["origin"], ["carrier"])],
        metrics_specs=[tfma.MetricsSpec(metrics=metrics)],
    )


class Usage:
    """Measurements of the nodes that the local runner launches in this process."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, float]] = {}

    def measure(self) -> None:
        """Wraps TFX's launcher with the measurement."""
        launch = launcher.Launcher.launch

        def measured(node: launcher.Launcher) -> object:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
            wall, cpu = time.perf_counter(), _processor_seconds()
            try:
                return launch(node)
            finally:
                self.nodes[node._pipeline_node.node_info.id] = {
                    "seconds": time.perf_counter() - wall,
                    "cpu_seconds": _processor_seconds() - cpu,
                    "peak_mib": _peak_mib(),
                }

        launcher.Launcher.launch = measured


def _processor_seconds() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def results(directory: Path) -> dict[str, object]:
    """Returns nodes, rows per split, metrics on all eval rows, and the verdict of a finished run."""
    statistics = _output(directory, "StatisticsGen/statistics")
    rows = {
        split: tfdv.load_stats_binary(f"{statistics}/Split-{split}/FeatureStats.pb").datasets[0].num_examples
        for split in ("train", "eval")
    }
    evaluation = tfma.load_eval_result(str(_output(directory, "Evaluator/evaluation")))
    metrics = {name: value["doubleValue"] for name, value in evaluation.get_metrics_for_slice(()).items() if value}
    serving = directory / "serving"
    return {
        "nodes": json.loads((directory / USAGE).read_text(encoding="utf-8")),
        "rows": rows,
        "metrics": {name: metrics[name] for name in METRICS},
        "blessed": (_output(directory, "Evaluator/blessing") / "BLESSED").exists(),
        "pushed": serving.exists() and any(serving.iterdir()),
    }


def _output(directory: Path, output: str) -> Path:
    [artifact] = (directory / "runs" / output).iterdir()
    return artifact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--data", type=Path, help="run the pipeline on this folder; without it, print the results")
    parser.add_argument("--train", type=int, help="rows of the train split")
    parser.add_argument("--eval", type=int, help="rows of the eval split")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    if arguments.data is None:
        print(json.dumps(results(directory)))
        return
    usage = Usage()
    usage.measure()
    rows = {"train": arguments.train, "eval": arguments.eval}
    tfx.orchestration.LocalDagRunner().run(build_pipeline(arguments.data.resolve(), directory, rows))
    (directory / USAGE).write_text(json.dumps(usage.nodes), encoding="utf-8")


if __name__ == "__main__":
    main()
