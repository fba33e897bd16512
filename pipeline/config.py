"""The config model of a pipeline file. Nothing here imports TensorFlow, TFX or Beam."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.measure.metrics import DEFAULT_METRICS, OF_QUANTILES
from fullpass.components.ingest.config import (
    DataConfig,
    HashSplit,
    IngestConfig,
    RandomSplit,
    StratifiedSplit,
    TimeSplit,
)
from fullpass.components.report.config import CardConfig, CardFacts
from fullpass.components.watch.config import ServingLogConfig, WatchConfig
from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.preprocessing.columns.raw_columns import derived_dependencies, request_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import Feature, Features
from fullpass.preprocessing.features.history import lists_of
from fullpass.preprocessing.features.ids import StableIds
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.sequences import SequenceSpec, with_columns_of, yaml_keys
from fullpass.preprocessing.features.target_feature import TargetFeature
from fullpass.preprocessing.spec import Count, EnvironmentVariable, Flag, ImportPath, Name, NonNegative, Spec
from fullpass.trainer.config import InputConfig, ModelConfig, RunFn, TrainerConfig, TrainingConfig, WideDeep
from fullpass.trainer.tuning.config import TuningConfig

Event = Literal["success", "not_blessed", "gate_stop", "failure", "skipped", "watch"]
EVENTS: tuple[Event, ...] = get_args(Event)

PIPELINE_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"

ADDRESS_VARIABLE = "MLFLOW_TRACKING_URI"
"""Environment variable with the server's address; MLflow's client reads it, and the variables of logins and tokens."""


class ParityConfig(Spec):
    """Compares the features of training with those of serving."""

    rows: Literal["all"] | Count = "all"
    """Eval rows to compare."""
    rtol: Annotated[float, Field(strict=True, ge=0)] = 1e-5
    """Allowed relative difference of floats; ids and text must be equal."""
    atol: Literal["auto"] | Annotated[float, Field(strict=True, ge=0)] = "auto"
    """|training - serving| may be up to atol + rtol * |serving|. auto: `rtol` times the standard deviation of the
    feature or scores; for probabilities, `rtol`."""


class PushConfig(Spec):
    """Where blessed models are pushed."""

    to: Name = "serving"
    """Folder that a model server watches; each model is a version in it."""
    keep: Count = 5
    """Versions to keep; the served version always stays."""


class BeamConfig(Spec):
    """The Beam runner of the full passes over the data."""

    runner: Name = "direct"
    """direct, flink, spark, dataflow, or any other Beam runner."""
    workers: Literal["auto"] | Count = "auto"
    """Workers of the direct runner. auto: one thread under 1 GB of data, else a process per core."""
    options: dict[Name, str | int | float | bool | tuple[str, ...] | None] = Field(default_factory=dict)
    """Further Beam options, by name without dashes; null for a flag, a list to repeat one."""


class Hook(Spec):
    """One receiver: a program (`command`) or an address (`url_env`)."""

    on: tuple[Event, ...] = Field(default=EVENTS, min_length=1)
    """Events to send (docs/scheduling.md)."""
    command: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Program and arguments; reads the payload from standard input."""
    url_env: EnvironmentVariable | None = None
    """Variable with the address to post to."""
    token_env: EnvironmentVariable | None = None
    """Variable with a token, sent as `Authorization: Bearer`."""
    timeout: Count = 10
    """Seconds per attempt, after which a command is killed with its processes."""
    retries: NonNegative = 3
    """Retries, after 1, 2, 4 ... seconds, if the receiver is unreachable or answers 429 or 5xx."""

    @model_validator(mode="after")
    def _one_receiver(self) -> "Hook":
        if (self.command is None) == (self.url_env is None):
            raise ValueError("a hook needs command or url_env, and not both.")
        if self.token_env is not None and self.url_env is None:
            raise ValueError("token_env goes with url_env; a command finds it in its environment.")
        return self


class MlflowConfig(Spec):
    """Records each run on the MLflow server that MLFLOW_TRACKING_URI names."""

    experiment: Name | None = None
    """Experiment, created if it does not exist; null: the pipeline's name."""
    files: Flag = True
    """Store report, model card and YAML with the run."""
    timeout: Count = 120
    """Seconds for recording a run."""


class PipelineConfig(Spec):
    """One YAML file."""

    name: Annotated[str, Field(pattern=PIPELINE_NAME)]
    """Name of the pipeline, on Kubeflow too."""
    root: Name = "runs"
    """Folder of all artifacts and metadata."""
    data: DataConfig
    label: Label
    features: Features = Field(default_factory=dict)
    """Name -> feature. One feature or sequence is required."""
    sequences: dict[Name, SequenceSpec] = Field(default_factory=dict)
    """Name -> list columns of equal length, read element by element (docs/lists.md)."""
    crosses: tuple[Cross, ...] = ()
    """Categories computed from combinations of features."""
    stable_ids: StableIds | Flag = False
    """Of all learned vocabularies: ids of known tokens never change (docs/retraining.md)."""
    preprocessing: ImportPath | None = None
    """Function that replaces the transforms of all features (docs/own-code.md)."""
    nodes: ImportPath | None = None
    """Function that adds TFX nodes of your own (docs/own-nodes.md)."""
    code_files: tuple[Name, ...] = ()
    """Files, patterns or folders that your functions read (docs/own-code.md)."""
    model: ModelConfig = WideDeep(kind="wide_deep")
    """Architecture; a bare kind such as `linear` uses defaults."""
    training: TrainingConfig = TrainingConfig()
    tuning: TuningConfig | None = None
    """Hyperparameter search (docs/tuning.md)."""
    input: InputConfig = InputConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    gates: GatesConfig = GatesConfig()
    parity: ParityConfig = ParityConfig()
    push: PushConfig = PushConfig()
    schedule: ScheduleConfig | None = None
    notify: tuple[Hook, ...] = ()
    """Receivers of the outcomes of runs."""
    serving_log: ServingLogConfig | None = None
    watch: WatchConfig = WatchConfig()
    mlflow: MlflowConfig | None = None
    """Records runs on an MLflow server (docs/tracking.md)."""
    beam: BeamConfig = BeamConfig()
    card: CardConfig = CardConfig()

    @model_validator(mode="before")
    @classmethod
    def _reads_something(cls, value: Any) -> Any:
        """Requires at least one feature or sequence: an absent section `features` counts as empty."""
        if not isinstance(value, dict):
            return value
        if not value.get("sequences"):
            return {"features": {}, **value}
        return {key: section for key, section in value.items() if key != "features" or section}

    @model_validator(mode="before")
    @classmethod
    def _metrics_of_task(cls, value: Any) -> Any:
        """Fills in the default metrics of the task, so the resolved config shows them."""
        if not isinstance(value, dict):
            return value
        label, evaluation = value.get("label"), value.get("evaluation", {})
        if not isinstance(label, dict) or not isinstance(evaluation, dict) or evaluation.get("metrics"):
            return value
        usual = next((names for task, names in DEFAULT_METRICS.items() if task == label.get("task")), ())
        if label.get("task") == "regression" and _loss_kind(value.get("training")) == "quantile":
            usual = (*usual, *OF_QUANTILES)
        return {**value, "evaluation": {**evaluation, "metrics": list(usual)}}

    @model_validator(mode="before")
    @classmethod
    def _entity_of_history(cls, value: Any) -> Any:
        """Fills in entity and date of a forecast from the histories, if all of them have the same."""
        match value:
            case {"label": {"forecast": dict(forecast), **label}, "data": {"history": dict(histories)}} if histories:
                found = [{key: one.get(key) for key in _OF_HISTORY} for one in histories.values()]
                if all(one == found[0] for one in found):
                    known = {key: name for key, name in found[0].items() if name is not None}
                    return {**value, "label": {**label, "forecast": {**known, **forecast}}}
        return value

    @property
    def all_features(self) -> dict[str, Feature]:
        """The features, and the columns of sequences under the names SEQUENCE.COLUMN."""
        return with_columns_of(self.sequences, self.features)

    def keys_of(self, feature: str) -> tuple[str, ...]:
        """Returns the path of one of `all_features` in the YAML."""
        return ("features", feature) if feature in self.features else yaml_keys(self.sequences, feature)

    @property
    def preprocessing_config(self) -> PreprocessingConfig:
        """The part that determines the transform graph."""
        return PreprocessingConfig(
            features=self.features,
            sequences=self.sequences,
            crosses=self.crosses,
            derive=self.data.derive,
            history=self.data.history,
            types=self.data.types,
            label=self.label,
            slices=tuple(dict.fromkeys(c for columns in self.evaluation.slices for c in columns)),
            compute_at=self.input.compute_at,
            decimal=self.data.source.raw_text.decimal,
            function=self.preprocessing,
            whole=isinstance(self.model, RunFn),
            stable_ids=self.stable_ids,
            lookups={name: tuple(join.keys) for name, join in self.data.joins.items() if join.serve == "lookup"},
        )

    @property
    def ingest_config(self) -> IngestConfig:
        """The part that determines the written records."""
        data, split = self.data, self.data.split
        derive: dict[str, str] = {}
        if isinstance(split, StratifiedSplit):
            split = split.model_copy(update={"column": split.column or self.label.name})
            derive = derived_dependencies(str(split.column), data.derive)
        for column in (*lists_of(data.history).values(), *([self.label.name] if self.label.forecast else [])):
            derive |= derived_dependencies(column, data.derive)
        if isinstance(split, TimeSplit) and split.gap is None and self.label.forecast is not None:
            split = split.model_copy(update={"gap": self.label.forecast.ahead})
        return IngestConfig(
            source=data.source,
            split=split,
            records=data.records,
            bad_rows=data.bad_rows,
            split_leakage=data.split_leakage,
            derive={name: text for name, text in data.derive.items() if name in derive},
            joins=data.joins,
            history=data.history,
            shifted=self.label.shifted,
            span=data.span,
        )

    @property
    def card_facts(self) -> CardFacts:
        """The part that the model card shows."""
        columns = tuple(request_columns(self.preprocessing_config))
        return CardFacts(**dict(self.card), formula=self.data.derive.get(self.label.name, ""), columns=columns)

    @property
    def splits_single_rows(self) -> bool:
        """Whether `data.split` cuts row by row, without regard to groups or time, so that folds of train may do so too.

        It is not so with a target encoding, which train rows have from other train rows.
        """
        data, split = self.data, self.data.split
        single = isinstance(split, RandomSplit | StratifiedSplit) or (isinstance(split, HashSplit) and not split.column)
        ordered = data.source.given_splits or data.history or self.label.forecast
        encoded = any(isinstance(feature, TargetFeature) for feature in self.features.values())
        return single and not ordered and not encoded

    @property
    def trainer_config(self) -> TrainerConfig:
        """The part that the Trainer receives."""
        return TrainerConfig(model=self.model, training=self.training, input=self.input)


_OF_HISTORY = ("entity", "at", "format")


def missing_for_mlflow(environment: Mapping[str, str] = os.environ) -> str | None:
    """Returns the requirement that this machine lacks to record runs in MLflow, or None."""
    if find_spec("mlflow") is None:
        return (
            "the Python package mlflow-skinny is not installed here. Install fullpass[mlflow], or mlflow-skinny alone."
        )
    if not environment.get(ADDRESS_VARIABLE, "").strip():
        return f"the environment variable {ADDRESS_VARIABLE} is not set here."
    return None


def _loss_kind(training: Any) -> Any:
    """Returns the kind of `training.loss` as written, before validation."""
    loss = training.get("loss") if isinstance(training, dict) else None
    return loss.get("kind") if isinstance(loss, dict) else loss
