"""`fullpass diagnose FILE --features`: what each feature is worth, and what a model loses without the last ones."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError, listed
from fullpass.base.metric_text import difference_text, metric_text
from fullpass.base.user_modules import use_modules_of
from fullpass.components.evaluation.measure.measure_rows import in_batches, measure_rows
from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.components.run_artifacts import RunArtifacts
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.diagnose.diagnose import (
    INGEST,
    TRAIN,
    TRANSFORM,
    newest_run,
    newest_training,
    raw_examples,
    train_files,
)
from fullpass.pipeline.diagnose.feature_table import FeatureFacts, how_many, ranked, with_duplicates
from fullpass.pipeline.diagnose.shorter_pipeline import choose_weakest, crosses_of, without_features
from fullpass.pipeline.printing import aligned
from fullpass.pipeline.registry.compare import ComparedMetric, compared_metrics
from fullpass.pipeline.registry.compared_model import find_model
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.execution.records import outputs_in
from fullpass.pipeline.running.tfx_components import with_absolute_files
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.columns.raw_columns import feature_columns, raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import VALIDATION, TrainingSpec
from fullpass.trainer.export.eval_scores import scores_of
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_to_sample, sample_rows
from fullpass.trainer.fit.training_data import TrainingData, load_data, sized
from fullpass.trainer.input.raw_examples import RawExamples, raw_dtypes
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.insight.feature_information import (
    are_equal,
    commonest_share,
    find_duplicates,
    mutual_information,
    value_codes,
)
from fullpass.trainer.loss_config import levels_of
from fullpass.trainer.models.model_inputs import inputs_by_feature
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.records.record_files import has_files, open_records
from fullpass.trainer.train import train

TRAINER = "Trainer"
_SAMPLED = 20_000
"""Train rows of the table: with so many, a mutual information of 0.01 nats is well above that of chance."""
_SCORED = 200_000
"""Eval rows on which both models are compared: more narrow the intervals little, and take minutes."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class FeatureDiagnosis:
    """All features, and what a model without the last of them loses.

    Attributes:
        run: The newest run with a model: its examples were read, its importance is shown.
        features: From the most useful to the least.
        dropped: The features that the shorter model lacks, the least useful first.
        crosses: The crosses that it lacks too, because they combine such features.
        metrics: `a` is the value with all features, `b` without.
        train_rows, eval_rows: The rows of both trainings, and those on which both models are measured.
        shorter: The pipeline without these features.
    """

    run: str
    label: str
    sampled: int
    features: tuple[FeatureFacts, ...]
    dropped: tuple[str, ...]
    crosses: tuple[str, ...]
    metrics: tuple[ComparedMetric, ...]
    train_rows: int
    eval_rows: int
    shorter: Loaded


def diagnose_features(
    loaded: Loaded, file: Path, *, root: Path | None = None, last: int | None = None, say: Say = lambda _: None
) -> FeatureDiagnosis:
    """Measures the features of the newest run with a model, and trains twice: with all of them, and without the last.

    Nothing is written: the trainings are of this process, with the settings of the YAML, on one device.

    Args:
        loaded: A file that passes `checks.require`.
        file: Where the shorter YAML would be.
        last: The number of features to leave out; None chooses it.

    Raises:
        UserError: No run has a model, or its features are not those of the YAML; or no feature would be left.
    """
    config = loaded.config
    if config.preprocessing is not None:
        raise UserError(
            f"{loaded.file}: preprocessing: {config.preprocessing} makes the features, so no YAML could leave one out. "
            "`--features` measures features that the YAML declares."
        )
    if len(config.all_features) == 1:
        raise UserError(f"{loaded.file}: has one feature, {next(iter(config.all_features))}, so none can be left out.")
    if (last or 1) >= len(config.all_features):
        raise UserError(
            f"{loaded.file}: has {len(config.all_features)} features, of which one or more must stay. "
            f"Received: --last {last}. Accepted: a smaller number."
        )
    use_modules_of(loaded.folder)
    folder = pipeline_root(loaded, root)
    metadata = RootLayout(folder).metadata
    run = newest_run(loaded, folder, (INGEST, TRANSFORM, TRAINER))
    trained = outputs_in(metadata, config.name, run, TRAINER)
    _check_features(loaded, trained["model"][-1].uri, run)
    say("all features: a training with them")
    spec, data = _load(loaded, folder, run)
    whole = _trained(data, spec)
    say("what each feature says")
    record = RunArtifacts(trained).training
    sample = sample_rows(data.train.split, data.in_model, rows_to_sample(whole, _SAMPLED))
    missing = missing_shares(spec.preprocessing, train_files(raw_examples(loaded, metadata, run), loaded.file))
    facts = describe_features(config, whole, sample, missing, record.get("importance", ()))
    dropped = choose_weakest([one.name for one in facts], how_many(facts, last), config)
    shorter = without_features(loaded, dropped, file)
    say(f"what is lost: a training without {len(dropped)} of {len(facts)} features")
    own = with_absolute_files(shorter.config.preprocessing_config, shorter.resolve)
    less = _trained(data, replace(spec, preprocessing=own))
    metrics, rows = _compare(config, whole, less, data)
    return FeatureDiagnosis(
        run=run,
        label=config.label.column,
        sampled=len(sample),
        features=facts,
        dropped=dropped,
        crosses=tuple(cross.feature_name for cross in crosses_of(dropped, config).values()),
        metrics=metrics,
        train_rows=data.train.counts.weighted_rows,
        eval_rows=rows,
        shorter=shorter,
    )


def _check_features(loaded: Loaded, model: str, run: str) -> None:
    """Raises UserError if the features of a run's model, as far as they are recorded, are not those of the YAML."""
    recorded = find_model(model, loaded.file).config
    if recorded is not None and recorded.preprocessing_config != loaded.config.preprocessing_config:
        raise UserError(
            f"{loaded.file}: its features, crosses, derived columns or label are not those of the newest run with a "
            f"model, {run}. Run it first: `fullpass run {loaded.file} --to Trainer`."
        )


def _load(loaded: Loaded, root: Path, run: str) -> tuple[TrainingSpec, TrainingData]:
    training = newest_training(loaded, root, run)
    settings = training.spec.config.training.model_copy(update={"profile": None, "checkpoint": None})
    spec = replace(training.spec, config=training.spec.config.model_copy(update={"training": settings}))
    folders = sorted({file.rpartition("/")[0] for file in training.files})

    def beside(split: str) -> list[str]:
        return [f"{folder.removesuffix(TRAIN)}{split}/*" for folder in folders]

    validation = beside(VALIDATION) if any(map(has_files, beside(VALIDATION))) else ()
    return spec, load_data(
        training.files, beside("eval"), spec, TrainingWorkers(tf.distribute.get_strategy()), validation
    )


def _trained(data: TrainingData, spec: TrainingSpec) -> Network:
    keras.backend.clear_session()
    return train(sized(data, spec), spec, tf.distribute.get_strategy()).network


def describe_features(
    config: PipelineConfig,
    network: Network,
    rows: SampledRows,
    missing: Mapping[str, float],
    importance: Sequence[Mapping[str, float]],
) -> tuple[FeatureFacts, ...]:
    """Returns what the rows say of each feature that a network reads, from the most useful to the least.

    Args:
        missing: Feature -> share of rows that lack it.
        importance: As in training.json.
    """
    task, known = config.label.task, {str(one["feature"]): one for one in importance}
    inputs = inputs_by_feature(network.inputs.values())
    codes = {name: value_codes(rows, inputs[name]) for name in config.all_features if name in inputs}
    facts = ranked(
        [
            FeatureFacts(
                name=name,
                type=config.all_features[name].type,
                missing=missing.get(name, math.nan),
                commonest=commonest_share(of_rows),
                information=mutual_information(rows, inputs[name], task),
                importance=known.get(name, {}).get("importance"),
                reach=known.get(name, {}).get("reach"),
            )
            for name, of_rows in codes.items()
        ]
    )
    # The more important one of two duplicates stays, so features are compared in this order.
    duplicates = find_duplicates({one.name: codes[one.name] for one in facts})
    equal = {name for name, other in duplicates.items() if are_equal(rows, inputs[name], inputs[other])}
    return ranked(with_duplicates(facts, duplicates, equal))


def missing_shares(config: PreprocessingConfig, files: Sequence[str]) -> dict[str, float]:
    """Returns feature -> the share of rows in which one of its columns is missing or an empty list.

    Args:
        files: Raw examples; the first rows of each are read.
    """
    parse = RawExamples(raw_dtypes(raw_columns(config)))
    lacking: dict[str, list[np.ndarray]] = {name: [] for name in config.features}
    for file in files:
        records = next(iter(open_records(tf.constant(file)).batch(-(-_SAMPLED // len(files)))), None)
        if records is None:
            continue
        columns = Columns(parse.tensors(records), config)
        for name, feature in config.features.items():
            of_columns = [_is_missing(columns, column, config) for column in feature_columns(name, feature)]
            lacking[name].append(np.any(of_columns, axis=0) if of_columns else np.zeros(len(records), bool))
    return {name: float(np.concatenate(parts).mean()) for name, parts in lacking.items() if parts}


def _is_missing(columns: Columns, name: str, config: PreprocessingConfig) -> np.ndarray:
    column = raw_columns(config).get(name)
    if column is not None and column.many:
        return columns.elements(name, numbers=False).row_lengths().numpy() == 0
    if column is not None and column.type == "vector":
        return np.isnan(columns.vector(column).numpy()).any(axis=1)
    return ~columns.string(name).present.numpy()


def _compare(
    config: PipelineConfig, whole: Network, less: Network, data: TrainingData
) -> tuple[tuple[ComparedMetric, ...], int]:
    """Returns the metrics of the evaluation for both networks on the same eval rows, and the number of these rows."""
    rows = sample_rows(data.evaluation.split, data.in_model, rows_to_sample(whole, _SCORED))
    numbers = np.arange(len(rows))
    models = tuple(_scored(rows, network, config) for network in (whole, less))
    names = config.evaluation.measured
    found = measure_rows(names, (), in_batches(ScoredRows(numbers, np.zeros_like(numbers), {}, models))).whole
    return compared_metrics(found, names), len(rows)


def _scored(rows: SampledRows, network: Network, config: PipelineConfig) -> Scored:
    logits = rows.logits(network)
    scores = np.asarray(scores_of(config.label.task, tf.constant(logits)), np.float64)
    levels = levels_of(config.training.loss)
    return Scored(
        rows.labels.astype(np.float64),
        rows.weights.astype(np.float64),
        scores,
        quantiles=logits[:, 1:].astype(np.float64) if levels else None,
        levels=levels,
    )


_HEAD = ("feature", "type", "missing", "commonest", "information", "importance")


def feature_lines(found: FeatureDiagnosis) -> str:
    """Returns the diagnosis as lines for people."""
    return "\n".join([*_feature_lines(found), "", *_loss_lines(found)])


def features_json(found: FeatureDiagnosis) -> dict[str, Any]:
    """Returns the diagnosis for programs; the information is in nats, and null is what was not measured."""
    return {
        "run": found.run,
        "features": [
            {
                "feature": one.name,
                "type": one.type,
                "missing": one.missing,
                "commonest": one.commonest,
                "duplicate_of": one.duplicate_of or None,
                "information": one.information,
                "importance": one.importance,
                "reach": one.reach,
                "advice": one.advice,
            }
            for one in found.features
        ],
        "without": {
            "features": found.dropped,
            "crosses": found.crosses,
            "train_rows": found.train_rows,
            "eval_rows": found.eval_rows,
            "metrics": [
                {
                    "metric": one.metric,
                    "all": one.a,
                    "without": one.b,
                    "difference": one.difference,
                    "reach": one.half_width,
                }
                for one in found.metrics
            ],
        },
    }


def _feature_lines(found: FeatureDiagnosis) -> Iterator[str]:
    yield (
        f"{len(found.features)} features of run {found.run}, the most useful first. Of {found.sampled:,} train rows: "
        f"missing, the share of the commonest value, and the information about {found.label} in nats, beyond chance. "
        "Of eval rows: importance, the growth of the loss when the feature is permuted."
    )
    head, *lines = aligned([_HEAD, *map(_cells, found.features)], right=True)
    yield f"{head}  advice"
    yield from (f"{line}  {one.advice}" for line, one in zip(lines, found.features, strict=True))


def _cells(one: FeatureFacts) -> tuple[str, ...]:
    information = "" if one.information is None else f"{one.information:.4f}"
    importance = "" if one.importance is None else f"{one.importance:.4f} ± {one.reach:.4f}"
    return one.name, one.type, f"{one.missing:.1%}", f"{one.commonest:.1%}", information, importance


def _loss_lines(found: FeatureDiagnosis) -> Iterator[str]:
    crosses = f", and of the crosses {listed(list(found.crosses))}" if found.crosses else ""
    yield (
        f"Without {listed(list(found.dropped))}{crosses}: trained again on the same {found.train_rows:,} rows, as with "
        f"all features, and measured on the same {found.eval_rows:,}."
    )
    rows = [("metric", "all", "without", "difference", "95 % interval")]
    words = [""]
    for one in found.metrics:
        low, high = one.difference - one.half_width, one.difference + one.half_width
        interval = "" if math.isnan(one.half_width) else f"{difference_text(low)} to {difference_text(high)}"
        rows.append((one.metric, metric_text(one.a), metric_text(one.b), difference_text(one.difference), interval))
        words.append(one.words.replace("A is better", "a loss").replace("B is better", "a gain"))
    yield from (f"{line}  {word}".rstrip() for line, word in zip(aligned(rows, right=True), words, strict=True))
