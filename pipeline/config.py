"""A pipeline file as data. Nothing here imports TensorFlow, TFX or Beam."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.metrics import DEFAULT_METRICS, OF_QUANTILES
from fullpass.components.ingest.config import DataConfig, IngestConfig, StratifiedSplit
from fullpass.pipeline.running.notify.config import Hook
from fullpass.pipeline.running.tracking.config import MlflowConfig
from fullpass.pipeline.scheduling.config import ScheduleConfig
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import Feature, Features
from fullpass.preprocessing.features.ids import StableIds
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.raw_columns import derived_behind
from fullpass.preprocessing.features.sequences import SequenceSpec, keys_of, with_columns_of
from fullpass.preprocessing.spec import Count, Flag, Name, Spec
from fullpass.trainer.config import InputConfig, ModelConfig, TrainerConfig, TrainingConfig, WideDeep
from fullpass.trainer.tuning.config import TuningConfig


class ParityConfig(Spec):
    """Compares the features of training with those of serving."""

    rows: Literal["all"] | Count = "all"
    """Eval rows compared."""
    rtol: Annotated[float, Field(strict=True, ge=0)] = 1e-5
    """Difference allowed between floats, as a share of the export's value, beside `atol`; float32 holds 7 digits. Ids
    and text must be equal."""
    atol: Literal["auto"] | Annotated[float, Field(strict=True, ge=0)] = "auto"
    """Difference allowed between floats, whatever their size: |training - serving| <= atol + rtol * |serving|. auto:
    `rtol` times the standard deviation of the feature or of the scores; of probabilities, times 1."""


class PushConfig(Spec):
    """Where blessed models go."""

    to: Name = "serving"
    """Folder that a model server watches; each model becomes a version in it. Relative to the YAML's folder."""
    keep: Count = 5
    """Versions kept; the one being served always is."""


class BeamConfig(Spec):
    """Where full passes run."""

    runner: Name = "direct"
    """direct, flink, spark, dataflow, or the name of any Beam runner."""
    workers: Literal["auto"] | Count = "auto"
    """Of the direct runner. auto takes one thread for data under 1 GB, a process per core above."""
    options: dict[Name, str | int | float | bool | tuple[str, ...] | None] = Field(default_factory=dict)
    """Further Beam pipeline options, by name without dashes; null for a flag that takes no value."""


class PipelineConfig(Spec):
    """One YAML file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    """Lower-case letters, digits and dashes; names the pipeline everywhere, on Kubeflow too."""
    root: Name = "runs"
    """Folder of all artifacts and metadata. Relative to the YAML's folder."""
    data: DataConfig
    label: Label
    features: Features = Field(default_factory=dict)
    """Name -> feature; a bare type such as `number` is short for its defaults. At least one, or a sequence."""
    sequences: dict[Name, SequenceSpec] = Field(default_factory=dict)
    """Name -> several list columns of one length, read element by element (docs/lists.md)."""
    crosses: tuple[Cross, ...] = ()
    """Categories made of combinations of features."""
    stable_ids: StableIds | Flag = False
    """Ids of known tokens never change when the pipeline is run again on other data; true is short for the defaults.
    The default of all learned vocabularies."""
    preprocessing: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`package.module:function` that replaces the generated transforms of all features."""
    model: ModelConfig = WideDeep(kind="wide_deep")
    """The architecture; a bare kind such as `linear` is short for its defaults."""
    training: TrainingConfig = TrainingConfig()
    tuning: TuningConfig | None = None
    """A search for hyperparameters before the model is trained (docs/tuning.md)."""
    input: InputConfig = InputConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    gates: GatesConfig = GatesConfig()
    parity: ParityConfig = ParityConfig()
    push: PushConfig = PushConfig()
    schedule: ScheduleConfig | None = None
    notify: tuple[Hook, ...] = ()
    """Who is notified of how runs end."""
    mlflow: MlflowConfig | None = None
    """Records runs, metrics and trials at an MLflow server (docs/tracking.md)."""
    beam: BeamConfig = BeamConfig()

    @model_validator(mode="before")
    @classmethod
    def _reads_something(cls, value: Any) -> Any:
        """Leaves no file without anything to learn from: a section `features` that is not there counts as empty."""
        if not isinstance(value, dict):
            return value
        if not value.get("sequences"):
            return {"features": {}, **value}
        return {key: section for key, section in value.items() if key != "features" or section}

    @model_validator(mode="before")
    @classmethod
    def _metrics_of_task(cls, value: Any) -> Any:
        """Fills in the metrics usual for the task, so that the resolved config shows them."""
        if not isinstance(value, dict):
            return value
        label, evaluation = value.get("label"), value.get("evaluation", {})
        if not isinstance(label, dict) or not isinstance(evaluation, dict) or evaluation.get("metrics"):
            return value
        usual = next((names for task, names in DEFAULT_METRICS.items() if task == label.get("task")), ())
        if label.get("task") == "regression" and _loss_kind(value.get("training")) == "quantile":
            usual = (*usual, *OF_QUANTILES)
        return {**value, "evaluation": {**evaluation, "metrics": list(usual)}}

    @property
    def all_features(self) -> dict[str, Feature]:
        """The features and the columns of sequences, these by SEQUENCE.COLUMN."""
        return with_columns_of(self.sequences, self.features)

    def keys_of(self, feature: str) -> tuple[str, ...]:
        """Returns the path of one of `all_features` in the YAML."""
        return ("features", feature) if feature in self.features else keys_of(self.sequences, feature)

    @property
    def preprocessing_config(self) -> PreprocessingConfig:
        """The part that decides the transform graph."""
        return PreprocessingConfig(
            features=self.features,
            sequences=self.sequences,
            crosses=self.crosses,
            derive=self.data.derive,
            types=self.data.types,
            label=self.label,
            slices=tuple(dict.fromkeys(c for columns in self.evaluation.slices for c in columns)),
            compute_at=self.input.compute_at,
            function=self.preprocessing,
            stable_ids=self.stable_ids,
        )

    @property
    def ingest_config(self) -> IngestConfig:
        """The part that decides the records written."""
        data, split = self.data, self.data.split
        derive: dict[str, str] = {}
        if isinstance(split, StratifiedSplit):
            split = split.model_copy(update={"column": split.column or self.label.name})
            derive = derived_behind(str(split.column), data.derive)
        return IngestConfig(
            source=data.source,
            split=split,
            records=data.records,
            bad_rows=data.bad_rows,
            split_leakage=data.split_leakage,
            derive=derive,
            span=data.span,
        )

    @property
    def trainer_config(self) -> TrainerConfig:
        """The part the Trainer receives."""
        return TrainerConfig(model=self.model, training=self.training, input=self.input)


def _loss_kind(training: Any) -> Any:
    """Returns the kind of `training.loss` as it is written, before anything is checked."""
    loss = training.get("loss") if isinstance(training, dict) else None
    return loss.get("kind") if isinstance(loss, dict) else loss
