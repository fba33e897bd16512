"""The sections `model:`, `training:` and `input:` of the YAML. Nothing here imports TensorFlow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.base_feature import ComputeAt
from fullpass.preprocessing.spec import (
    Count,
    Duration,
    Flag,
    Fraction,
    ImportPath,
    Name,
    NonNegative,
    Seed,
    SelectedBy,
    Spec,
    length,
    members_by_tag,
)
from fullpass.trainer.loss_config import Auto, LossConfig

if TYPE_CHECKING:
    import tensorflow_transform as tft

ADDRESS = re.compile(r"[^\s:/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
"""host:port, or [IPv6 address]:port."""

MAX_EPOCHS = 100
"""Number of epochs with `epochs: auto`, if training does not end before."""
_GOES_ON = 3
"""How many times as many epochs `epochs: auto` may take while the validation rows improve."""

_PATIENCE = 5

VALIDATION = "validation"
"""The split whose rows end a training and choose between models; without it, those of eval do, which also judge."""

TREE_KEYS = ("epochs", "early_stopping", "time", "loss", "calibration", "seed", "distribution")
"""Keys of `training:` that `model: {kind: trees}` reads; all other keys apply to networks only."""

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class _Network(Spec):
    @model_validator(mode="before")
    @classmethod
    def _bare_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class DeepNetwork(_Network):
    """A network with hidden layers."""

    hidden: tuple[Count, ...] = Field(default=(128, 64), min_length=1)
    """Units of the hidden layers, input side first."""
    activation: Literal["relu", "gelu", "silu", "selu", "tanh"] = "relu"
    """Activation of the hidden layers."""
    dropout: Fraction = 0.1
    """Share of hidden units dropped in training."""
    batch_norm: Flag = False
    """Batch normalization of the hidden layers."""
    members: Annotated[Count, Field(le=64)] = 1
    """Networks with shared hidden kernels, whose logits are averaged (TabM, Gorishniy et al. 2024)."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """L2 penalty on hidden kernels."""


class Linear(_Network):
    """A generalised linear model: one weight per number and per id."""

    kind: Literal["linear"]
    l1: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """L1 penalty on all kernels."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """L2 penalty on all kernels."""


class Mlp(DeepNetwork):
    """A multilayer perceptron over all encoded features."""

    kind: Literal["mlp"]


class WideDeep(DeepNetwork):
    """A linear part over ids and crosses plus a deep part over all features (Cheng et al. 2016)."""

    kind: Literal["wide_deep"]


class Dcn(DeepNetwork):
    """Deep & Cross Network v2: crosses of bounded degree beside a deep part (Wang et al. 2021)."""

    kind: Literal["dcn"]
    cross_layers: Count = 2
    """n layers reach crosses of degree n + 1."""
    low_rank: Count | None = None
    """Rank of the cross kernels; None keeps them full."""


class Trees(_Network):
    """Gradient boosted trees, grown by LightGBM; docs/training.md has the features and keys that they support."""

    kind: Literal["trees"]
    learning_rate: Literal["auto"] | Annotated[float, Field(strict=True, gt=0, le=1)] = "auto"
    """Shrinkage of each tree; half the rate grows twice as many trees. auto: 0.05, or more where that takes minutes."""
    leaves: Literal["auto"] | Annotated[int, Field(strict=True, ge=2, le=256)] = "auto"
    """Most leaves of a tree. auto: of 7 to 127, by rows that trees did not learn from."""
    min_rows: Literal["auto"] | Count = "auto"
    """Fewest train rows on a leaf. auto: of 10 to 100, in the same way."""
    row_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of train rows drawn per round."""
    feature_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of features that a tree may use."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """L2 penalty on leaf values."""


class SeveralModels(_Network):
    """Trees, `wide_deep` and a linear model with default settings: their blend, or the best one (docs/training.md)."""

    kind: Literal["auto"]


SMALL_NETWORK = WideDeep(kind="wide_deep", hidden=(32,), dropout=0.2)
"""A network for few rows."""
SMALL_UP_TO = 1_500
"""The most train rows of a small network and of folds: a fifth of more rows judges models well enough."""


def auto_network(train_rows: int) -> WideDeep:
    """Returns the network of `model: auto`, and of `init`: the default, or a small one up to 1,500 train rows."""
    return SMALL_NETWORK if train_rows <= SMALL_UP_TO else WideDeep(kind="wide_deep")


class Module(_Network):
    """A model of your own.

    Called as `build_model(inputs, task, classes, options)` (docs/own-code.md): `inputs` is an ordered dict of feature
    name to `fullpass.trainer.models.model_inputs.ModelInput`; `classes` is 1 for binary and regression, or the number
    of levels of `loss: quantile`. Must return an uncompiled keras.Model from the `keras_input`s to logits float32
    [batch, classes].
    """

    kind: Literal["module"]
    function: ImportPath
    """Must be importable where the pipeline runs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the function unchanged."""


class RunFn(_Network):
    """A module of TFX, whose `run_fn` trains and exports, unchanged (docs/from-tfx.md).

    Called with the FnArgs of TFX's Trainer, in a process of its own. It reads what the `preprocessing_fn` of TFX
    returns that `preprocessing` names, and exports the signatures `serving_default` and `transform_features`.
    """

    kind: Literal["run_fn"]
    function: ImportPath
    """The `run_fn`, importable where the pipeline runs."""
    label: Name
    """Label among the outputs of `preprocessing`, as `label_key` of TFMA."""
    logits: Flag = False
    """Whether its scores are logits."""
    train_steps: Count | None = None
    """As `fn_args.train_steps`."""
    eval_steps: Count | None = None
    """As `fn_args.eval_steps`."""
    custom_config: dict[str, Any] | None = None
    """As `fn_args.custom_config`."""
    keras: Literal[2, 3] = 2
    """Version that `tf.keras` has in its process; in TFX it is 2."""


ModelConfig = Annotated[
    Linear | Mlp | WideDeep | Dcn | Trees | SeveralModels | Module | RunFn,
    SelectedBy("kind", bare=True),
]
NETWORKS: Mapping[str, type[_Network]] = members_by_tag(ModelConfig)
"""The value of `kind` -> the class."""


class EarlyStopping(Spec):
    """The limits of early stopping."""

    patience: Literal["auto"] | Count = "auto"
    """Epochs without improvement before training stops, or `schedule: plateau` reduces the learning rate. auto: 5;
    with many images 2, which an epoch ends that gains too little for its time (docs/images.md)."""
    min_delta: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Smallest decrease that counts as improvement."""

    @property
    def usual_patience(self) -> int:
        """The patience, with `auto` resolved where epochs are short."""
        return _PATIENCE if self.patience == "auto" else self.patience


class CheckpointConfig(Spec):
    """How often checkpoints are saved, and how many are kept."""

    every_seconds: Literal["auto"] | Positive | None = "auto"
    """Seconds between checkpoints; null uses `every_steps` only. auto: ten, or a hundred times the last write if
    longer."""
    every_steps: Count | None = None
    """Updates between checkpoints, in addition."""
    keep: Count = 2
    """Checkpoints to keep until the export."""


class ProfileConfig(Spec):
    """The updates that are traced."""

    steps: tuple[Count, Count]
    """First and last traced update, counted from 1; tens are enough."""

    @model_validator(mode="after")
    def _in_order(self) -> "ProfileConfig":
        if self.steps[0] > self.steps[1]:
            raise ValueError(f"steps: the first must not come after the last. Received: {list(self.steps)}.")
        return self


class TrainingConfig(Spec):
    """How the model is trained."""

    epochs: Literal["auto"] | Count = "auto"
    """Most passes over train; for trees of ten rounds each. auto: until the validation rows no longer improve, up to
    100, or 300 while they do."""
    time: Duration | None = "1h"
    """How long training may take, interrupted runs included; then it ends with the best weights so far, not
    reproducibly."""
    batch_size: Literal["auto"] | Count = "auto"
    """Examples per update. auto: the power of two nearest to train rows / 50, from 32 to 1024 (images:
    128)."""
    optimizer: Literal["adam", "adamw", "sgd", "adagrad", "ftrl"] = "adam"
    """sgd uses Nesterov momentum 0.9."""
    learning_rate: Literal["auto"] | Positive = "auto"
    """auto: 0.003 for adam and adamw on numbers and single categories from scratch, else 0.001."""
    schedule: Literal["auto", "plateau", "constant", "cosine", "linear"] = "auto"
    """Learning rate after `warmup`. plateau: a fifth when `patience` epochs bring no improvement, at most twice.
    cosine, linear: decays to zero over all epochs. auto: plateau with `epochs: auto` and early stopping, else
    cosine."""
    warmup: Fraction = 0.05
    """Share of updates in which it rises from 0; with plateau, at most the first epoch."""
    weight_decay: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """For adamw."""
    clip_norm: Positive | None = None
    """Largest global norm of the gradient."""
    loss: LossConfig = Auto()
    """Loss to minimize, and for a regression the meaning of a prediction."""
    label_smoothing: Fraction = 0.0
    """Share of every label that is spread over all classes."""
    calibration: Literal["auto", "none"] = "auto"
    """auto: corrects the predictions (docs/training.md). none: as trained."""
    mask_rate: Fraction = 0.02
    """Share of single-valued categories that an update replaces by missing or unknown."""
    early_stopping: EarlyStopping | None = EarlyStopping()
    """Stops when the log loss of the validation rows (regression: root mean squared error, or `training.loss`) no
    longer falls; null trains all epochs. The best epoch is exported in any case."""
    warm_start: Literal["none", "blessed"] | Name = "none"
    """Initial weights (docs/retraining.md); other text is the folder of an export."""
    seed: Seed = 1
    """Seed of weights and shuffle. On one CPU the same inputs give the same model."""
    checkpoint: CheckpointConfig | None = CheckpointConfig()
    """From checkpoints an interrupted run resumes in the middle of an epoch; null saves none."""
    profile: ProfileConfig | None = None
    """Traces some updates for TensorBoard's Profiler (docs/training.md)."""
    steps_per_execution: Literal["auto"] | Count = "auto"
    """Updates between which training cannot save or stop. auto: as many as take half a second."""
    accumulate: Count = 1
    """Micro-batches into which a device splits its part of a batch, to save memory. Only batch_norm sees them."""
    xla: Literal["auto"] | Flag = "auto"
    """Compile the gradient (docs/training.md). auto: on a single GPU without text and lists of categories."""
    distribution: Literal["auto", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"
    """auto: the first there is of multi_worker, tpu, mirrored and one_device (docs/training.md)."""
    scaling: Literal["none", "linear", "sqrt"] = "none"
    """none: `batch_size` is over all devices. linear, sqrt: it is per device, and the learning rate is multiplied by
    their number, or its root."""
    wait_for_workers: Positive = 600.0
    """Seconds to wait for other workers to start."""
    mixed_precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the hidden layers; weights, logits and losses stay float32. auto: bfloat16 on TPUs and GPUs from
    capability 8.0, float16 from 7.0, else float32."""

    @model_validator(mode="before")
    @classmethod
    def _no_minutes(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "max_minutes" in value:
            raise ValueError("max_minutes is now time, with a unit. Write time: 10m for ten minutes, or time: null.")
        return value

    @model_validator(mode="after")
    def _weight_decay_of_adamw(self) -> "TrainingConfig":
        if self.weight_decay > 0 and self.optimizer != "adamw":
            raise ValueError(f"weight_decay is for optimizer: adamw. Received: optimizer: {self.optimizer}.")
        return self

    @model_validator(mode="after")
    def _plateau_needs_patience(self) -> "TrainingConfig":
        if self.schedule == "plateau" and self.early_stopping is None:
            raise ValueError(
                "schedule: plateau reduces the learning rate after the patience of early_stopping, which is null. Use "
                "schedule: cosine, or remove early_stopping: null."
            )
        return self

    @property
    def max_epochs(self) -> int:
        """The maximum number of epochs."""
        return MAX_EPOCHS if self.epochs == "auto" else self.epochs

    @property
    def goes_on_to(self) -> int:
        """The number of epochs up to which training goes on after `max_epochs` while the validation rows improve."""
        return self.max_epochs * (_GOES_ON if self.epochs == "auto" and self.early_stopping is not None else 1)

    @property
    def seconds(self) -> float | None:
        """The limit `time` in seconds."""
        return None if self.time is None else length(self.time).total_seconds()

    @property
    def decay(self) -> Literal["plateau", "constant", "cosine", "linear"]:
        """The learning-rate schedule, with `auto` resolved."""
        if self.schedule != "auto":
            return self.schedule
        return "plateau" if self.epochs == "auto" and self.early_stopping is not None else "cosine"

    @property
    def begins_from_folder(self) -> bool:
        """Whether `warm_start` names an export."""
        return self.warm_start not in ("none", "blessed")


class ServiceConfig(Spec):
    """The address of a tf.data service, and how long to wait for it."""

    address: str | None = None
    """host:port of the dispatcher; null: the environment variable FULLPASS_INPUT_SERVICE."""
    wait_seconds: Positive = 60.0
    """Seconds to wait for it, and for each block of rows, before training fails."""

    @model_validator(mode="after")
    def _host_and_port(self) -> "ServiceConfig":
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise ValueError(f"address must be host:port of a dispatcher. Received: {self.address}.")
        return self


class InputConfig(Spec):
    """How examples reach the model."""

    compute_at: ComputeAt = "transform"
    """Where features are computed by default (docs/placement.md)."""
    cache: Literal["auto", "memory", "disk", "none"] = "auto"
    """Where parsed examples stay between epochs (docs/input.md). auto: in memory if they fit in `memory_fraction`, else
    on disk. none parses in every epoch."""
    memory_fraction: Annotated[Fraction, Field(gt=0)] = 0.1
    """Share of the free memory (of the container, if less) that one split may take."""
    cache_dir: str | None = None
    """Local folder of the examples on disk; null: `input_cache` in the root."""
    shuffle_buffer: Literal["auto"] | NonNegative = "auto"
    """Examples that are shuffled together (docs/input.md); 0 does not shuffle, auto is 100,000."""
    readers: Literal["auto"] | Count = "auto"
    """Files read at the same time."""
    service: ServiceConfig | None = None
    """A tf.data service on other machines parses and transforms (docs/input.md); null: the trainer does."""

    @model_validator(mode="after")
    def _local_cache(self) -> "InputConfig":
        if self.cache_dir is not None and "://" in self.cache_dir:
            raise ValueError(f"cache_dir must be a folder of the trainer's machine. Received: {self.cache_dir}.")
        return self

    @model_validator(mode="after")
    def _kept_once_served(self) -> "InputConfig":
        if self.service is not None and self.cache == "none":
            raise ValueError(
                "service: it sends its rows once and the trainer must keep them, which cache: none does not allow. Use "
                "cache: auto, memory or disk, or remove service."
            )
        return self


class TrainerConfig(Spec):
    """The sections the Trainer component receives."""

    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    input: InputConfig = InputConfig()


@dataclass(frozen=True)
class TrainingSpec:
    """The sections of the YAML that define a training, and the transform graph."""

    preprocessing: PreprocessingConfig
    config: TrainerConfig
    tft_output: "tft.TFTransformOutput"
