"""Runs the taxi pipeline of TFX's own template with every component turned on; bench_taxi measures this process.

    python -m benchmarks.stock_pipeline DIRECTORY [--features default|all] [--steps 1000]

The components, their order and their settings (steps, threshold, evaluation) follow
`tfx.experimental.templates.taxi`. Its installed `preprocessing_fn` and `run_fn` are called. All outputs go under
DIRECTORY. In a DIRECTORY of an earlier run, TFX's cache skips the nodes that have not changed.
"""

import argparse
from pathlib import Path

import tensorflow_model_analysis as tfma
from tfx import v1 as tfx
from tfx.experimental.templates.taxi.models import features as template_features
from tfx.experimental.templates.taxi.pipeline import configs

from benchmarks.stock_taxi import taxi_csv
from fullpass.preprocessing.internals.prism import without_prism

MODELS = "tfx.experimental.templates.taxi"

# The larger feature set that the template's features.py suggests in a comment.
ALL_FEATURES = {
    "DENSE_FLOAT_FEATURE_KEYS": ["trip_miles", "fare", "trip_seconds"],
    "BUCKET_FEATURE_KEYS": ["pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"],
    "BUCKET_FEATURE_BUCKET_COUNT": [10, 10, 10, 10],
    "CATEGORICAL_FEATURE_KEYS": ["trip_start_hour", "trip_start_day", "trip_start_month"],
    "CATEGORICAL_FEATURE_MAX_VALUES": [24, 31, 12],
    "VOCAB_FEATURE_KEYS": ["payment_type", "company"],
}


def build_pipeline(directory: Path, steps: int) -> tfx.dsl.Pipeline:
    """Returns the template's pipeline, trained for `steps` batches, with outputs and metadata under `directory`."""
    example_gen = tfx.components.CsvExampleGen(input_base=str(taxi_csv().parent))
    statistics_gen = tfx.components.StatisticsGen(examples=example_gen.outputs["examples"])
    schema_gen = tfx.components.SchemaGen(statistics=statistics_gen.outputs["statistics"])
    example_validator = tfx.components.ExampleValidator(
        statistics=statistics_gen.outputs["statistics"], schema=schema_gen.outputs["schema"]
    )
    transform = tfx.components.Transform(
        examples=example_gen.outputs["examples"],
        schema=schema_gen.outputs["schema"],
        preprocessing_fn=f"{MODELS}.{configs.PREPROCESSING_FN}",
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{MODELS}.{configs.RUN_FN}",
        examples=transform.outputs["transformed_examples"],
        schema=schema_gen.outputs["schema"],
        transform_graph=transform.outputs["transform_graph"],
        train_args=tfx.proto.TrainArgs(num_steps=steps),
        eval_args=tfx.proto.EvalArgs(num_steps=configs.EVAL_NUM_STEPS),
    )
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    evaluator = tfx.components.Evaluator(
        examples=example_gen.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=resolver.outputs["model"],
        eval_config=eval_config(),
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(directory / "serving_model"))
        ),
    )
    return tfx.dsl.Pipeline(
        beam_pipeline_args=without_prism(),
        pipeline_name="stock_taxi",
        pipeline_root=str(directory / "pipeline_root"),
        enable_cache=True,
        components=[
            example_gen, statistics_gen, schema_gen, example_validator, transform,
            trainer, resolver, evaluator, pusher,
        ],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(directory / "metadata.db")
        ),
    )  # fmt: skip


def eval_config() -> tfma.EvalConfig:
    """Returns the template's config: binary accuracy above its threshold, and not below the last blessed model's."""
    threshold = tfma.MetricThreshold(
        value_threshold=tfma.GenericValueThreshold(lower_bound={"value": configs.EVAL_ACCURACY_THRESHOLD}),
        change_threshold=tfma.GenericChangeThreshold(
            direction=tfma.MetricDirection.HIGHER_IS_BETTER, absolute={"value": -1e-10}
        ),
    )
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(
                signature_name="serving_default",
                label_key=template_features.transformed_name(template_features.LABEL_KEY),
                preprocessing_function_names=["transform_features"],
            )
        ],
        slicing_specs=[tfma.SlicingSpec()],
        metrics_specs=[tfma.MetricsSpec(metrics=[tfma.MetricConfig(class_name="BinaryAccuracy", threshold=threshold)])],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--features", choices=["default", "all"], default="default")
    parser.add_argument("--steps", type=int, default=configs.TRAIN_NUM_STEPS)
    arguments = parser.parse_args()
    if arguments.features == "all":
        for name, value in ALL_FEATURES.items():
            setattr(template_features, name, value)
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    tfx.orchestration.LocalDagRunner().run(build_pipeline(directory, arguments.steps))


if __name__ == "__main__":
    main()
