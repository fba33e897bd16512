"""Runs a template of TFX under its LocalDagRunner, with some of its components replaced; bench_templates times it.

    python -m benchmarks.template_pipeline DIRECTORY --template taxi|penguin --variant NAME

The installed `preprocessing_fn` and `run_fn` of the template are called as they are. Of the variants, `stock` replaces
nothing, `transform` and `evaluator` that component, `three` both and the ExampleGen, and `yaml` all. All outputs go
under DIRECTORY. The last line is a JSON object: AUC of the model on the eval rows by scikit-learn, one class against
the rest, and the number of these rows.
"""

import argparse
import csv
import glob
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The templates are written for Keras 2. With `yaml`, their `run_fn` has a process of its own.
os.environ["TF_USE_LEGACY_KERAS"] = "0" if "yaml" in sys.argv else "1"

import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
from sklearn.metrics import roc_auc_score
from tfx import v1 as tfx

import fullpass
from benchmarks.common import package_file
from benchmarks.stock_taxi import taxi_csv
from fullpass.preprocessing.internals.prism import without_prism

VARIANTS = ("stock", "transform", "evaluator", "three", "yaml")


@dataclass(frozen=True)
class Template:
    """A template of TFX.

    Attributes:
        label: The label among the outputs of its preprocessing_fn.
        logits: Whether its model returns logits.
        metric: The metric of TFMA that its Evaluator bounds.
        yaml: What Fullpass knows: columns, task and thresholds.
        write: Writes data.csv into a folder.
        run_fn: The module of its run_fn, below `models`.
    """

    label: str
    logits: bool
    metric: str
    yaml: str
    write: Callable[[Path], object]
    run_fn: str


def _write_taxi(folder: Path) -> None:
    (folder / "data.csv").write_text(taxi_csv().read_text())


def _write_penguins(folder: Path) -> None:
    """Writes the penguins of TFX's test data as a CSV."""
    pattern = f"{package_file('tfx', 'components/testdata/penguin/schema/schema.pbtxt').parents[1]}/data/Split-*/*"
    rows = [dict(_row(record)) for file in sorted(glob.glob(pattern)) for record in _records(file)]
    with open(folder / "data.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=sorted(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _records(file: str) -> Iterator[bytes]:
    kind = "GZIP" if file.endswith(".gz") else ""
    return tf.data.TFRecordDataset(file, compression_type=kind).as_numpy_iterator()


def _row(record: bytes) -> Iterator[tuple[str, float | int]]:
    for name, found in tf.train.Example.FromString(record).features.feature.items():
        yield name, (found.int64_list.value or found.float_list.value)[0]


TEMPLATES = {
    "taxi": Template(
        "tips_xf",
        False,
        "BinaryAccuracy",
        """\
name: taxi
data:
  source: {format: csv, path: data/data.csv}
  derive: {big_tipper: tips > 0.2 * fare}
  split: {method: random, ratios: {train: 2, eval: 1}}
label: {name: big_tipper, task: binary}
features: {trip_miles: number, pickup_latitude: number, trip_start_hour: number, fare: number}
evaluation: {metrics: [auc, accuracy], thresholds: {accuracy: {min: 0.6, not_worse_than: blessed}}}
""",
        _write_taxi,
        "keras_model.model",
    ),
    "penguin": Template(
        "species_xf",
        True,
        "SparseCategoricalAccuracy",
        """\
name: penguin
data:
  source: {format: csv, path: data/data.csv}
  split: {method: random, ratios: {train: 2, eval: 1}}
  types: {species: number}
label: {name: species, task: multiclass}
features: {culmen_length_mm: number, culmen_depth_mm: number, flipper_length_mm: number, body_mass_g: number}
evaluation: {metrics: [macro_auc], thresholds: {multiclass_accuracy: {min: 0.6, not_worse_than: blessed}}}
""",
        _write_penguins,
        "model",
    ),
}


def build_pipeline(directory: Path, name: str, variant: str, *, steps: int) -> tfx.dsl.Pipeline:
    """Returns the pipeline of a template with all components turned on, in the order of the template."""
    template, models = TEMPLATES[name], f"tfx.experimental.templates.{name}.models"
    if variant == "yaml":
        modules = f"""\
preprocessing: {models}.preprocessing:preprocessing_fn
model:
  {{kind: run_fn, function: "{models}.{template.run_fn}:run_fn", train_steps: {steps}, eval_steps: 15,
   label: {template.label}, logits: {str(template.logits).lower()}}}
"""
        (directory / "pipeline.yaml").write_text(template.yaml + modules)
        return fullpass.tfx_pipeline(directory / "pipeline.yaml", root=directory / "root")
    own = fullpass.tfx_components(directory / "pipeline.yaml", root=directory / "own")
    if variant == "three":
        example_gen = own.Ingest()
    else:
        example_gen = tfx.components.CsvExampleGen(input_base=str(directory / "data"))
    examples = example_gen.outputs["examples"]
    statistics_gen = tfx.components.StatisticsGen(examples=examples)
    schema_gen = tfx.components.SchemaGen(statistics=statistics_gen.outputs["statistics"])
    schema = schema_gen.outputs["schema"]
    validator = tfx.components.ExampleValidator(statistics=statistics_gen.outputs["statistics"], schema=schema)
    if variant in ("transform", "three"):
        transform = own.Transform(
            examples=examples, schema=schema, preprocessing_fn=f"{models}.preprocessing:preprocessing_fn"
        )
    else:
        transform = tfx.components.Transform(
            examples=examples, schema=schema, preprocessing_fn=f"{models}.preprocessing.preprocessing_fn"
        )
    trainer = tfx.components.Trainer(
        run_fn=f"{models}.{template.run_fn}.run_fn",
        examples=transform.outputs["transformed_examples"],
        schema=schema,
        transform_graph=transform.outputs["transform_graph"],
        train_args=tfx.proto.TrainArgs(num_steps=steps),
        eval_args=tfx.proto.EvalArgs(num_steps=15),
    )
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    model, baseline = trainer.outputs["model"], resolver.outputs["model"]
    evaluator: Any
    if variant in ("evaluator", "three"):
        evaluator = own.Evaluator(
            examples=examples, model=model, baseline_model=baseline, label=template.label, logits=template.logits
        )
    else:
        evaluator = tfx.components.Evaluator(
            examples=examples, model=model, baseline_model=baseline, eval_config=_eval_config(template)
        )
    pusher = tfx.components.Pusher(
        model=model,
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(directory / "serving"))
        ),
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name,
        pipeline_root=str(directory / "root"),
        components=[
            example_gen, statistics_gen, schema_gen, validator, transform, trainer, resolver, evaluator, pusher,
        ],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(directory / "metadata.db")
        ),
        beam_pipeline_args=without_prism(),
    )  # fmt: skip


def _eval_config(template: Template) -> tfma.EvalConfig:
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": 0.6}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -1e-10}
        ),
    )
    model = tfma.ModelSpec(
        signature_name="serving_default",
        label_key=template.label,
        preprocessing_function_names=["transform_features"],
    )
    metric = tfma.MetricConfig(class_name=template.metric, threshold=threshold)
    return tfma.EvalConfig(
        model_specs=[model],
        slicing_specs=[tfma.SlicingSpec()],
        metrics_specs=[tfma.MetricsSpec(metrics=[metric])],
    )


def score(directory: Path, template: Template) -> dict[str, float | int]:
    """Returns the AUC of the pushed model on the eval rows; those of a refused model raise IndexError."""
    model = tf.saved_model.load(max(glob.glob(f"{directory}/serving/*")))
    files = sorted(glob.glob(f"{directory}/root/*/examples/*/Split-eval/*"))
    records = tf.constant([record for file in files for record in _records(file)])
    labels = model.signatures["transform_features"](records)[template.label]
    labels = tf.sparse.to_dense(labels) if isinstance(labels, tf.SparseTensor) else labels
    scores = next(iter(model.signatures["serving_default"](records).values()))
    scores = tf.nn.softmax(scores) if template.logits else scores
    known, found = np.reshape(labels, -1), np.squeeze(scores.numpy())
    return {"auc": float(roc_auc_score(known, found, multi_class="ovr")), "rows": len(known)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--template", choices=sorted(TEMPLATES), required=True)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    directory, template = arguments.directory.resolve(), TEMPLATES[arguments.template]
    (directory / "data").mkdir(parents=True)
    template.write(directory / "data")
    (directory / "pipeline.yaml").write_text(template.yaml)
    steps = arguments.steps or (1_000 if arguments.template == "taxi" else 100)
    pipeline = build_pipeline(directory, arguments.template, arguments.variant, steps=steps)
    tfx.orchestration.LocalDagRunner().run(pipeline)
    print(json.dumps(score(directory, template)))


if __name__ == "__main__":
    main()
