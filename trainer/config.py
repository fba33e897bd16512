"""The sections `model:`, `training:` and `input:` of the YAML. Nothing here imports TensorFlow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.base_feature import ComputeAt
from fullpass.preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, SelectedBy, Spec, members_by_tag
from fullpass.trainer.loss_config import Auto, LossConfig

if TYPE_CHECKING:
    import tensorflow_transform as tft

ADDRESS = re.compile(r"[^\s:/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
"""host:port, or [IPv6 address]:port."""

MAX_EPOCHS = 100
"""Maximum number of epochs with `epochs: auto`."""

TREE_KEYS = ("epochs", "early_stopping", "max_minutes", "loss", "calibration", "seed", "distribution")
"""Keys of `training:` that `model: {kind: trees}` reads; all other keys apply to networks only."""

MAX_TREE_IDS = 256
"""Maximum number of different ids of a list or text under `model: {kind: trees}`, where each id becomes a column."""

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class _Network(Spec):
    @model_validator(mode="before")
    @classmethod
    def _bare_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class _Deep(_Network):
    hidden: tuple[Count, ...] = Field(default=(128, 64), min_length=1)
    """Units of the hidden layers, input side first."""
    activation: Literal["relu", "gelu", "silu", "selu", "tanh"] = "relu"
    """Activation function of the hidden layers."""
    dropout: Fraction = 0.1
    """Share of hidden units dropped in training."""
    batch_norm: Flag = False
    """Normalise each hidden layer by the moments of its batch."""
    members: Annotated[Count, Field(le=64)] = 1
    """Number of networks that are trained as one ensemble. They share the hidden kernels and differ by a factor and a
    bias per unit. The prediction is the mean of their logits. 1 is a single network. Source: Gorishniy et al. 2024,
    TabM."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on hidden kernels."""


class Linear(_Network):
    """A generalised linear model: one weight per number and per id. The baseline that every other model must beat."""

    kind: Literal["linear"]
    l1: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L1 penalty on all kernels."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on all kernels."""


class Mlp(_Deep):
    """A multilayer perceptron over all encoded features."""

    kind: Literal["mlp"]


class WideDeep(_Deep):
    """A linear part over ids and crosses and a deep part over all features, whose logits are added.

    Source: Cheng et al. 2016, Wide & Deep Learning for Recommender Systems.
    """

    kind: Literal["wide_deep"]


class Dcn(_Deep):
    """Deep & Cross Network v2: explicit feature crosses of bounded degree beside a deep part.

    Source: Wang et al. 2021, DCN V2.
    """

    kind: Literal["dcn"]
    cross_layers: Count = 2
    """Number of cross layers; n layers reach crosses of degree n + 1."""
    low_rank: Count | None = None
    """Rank of the cross kernels; None keeps them full."""


class Trees(_Network):
    """Gradient boosted decision trees on numbers and categories, grown by LightGBM (docs/training.md).

    The export consists of plain TensorFlow operations. Trees read these keys of `training:`: `epochs` (an epoch is ten
    rounds, and a round grows one tree per class), `early_stopping`, `max_minutes`, `loss`, `calibration`, `seed` and
    `distribution`. All other keys of `training:`, `encoding` of features and `input.shuffle_buffer` apply to networks
    only; `fullpass check` refuses them. Trees do not support images, sequences, lists and texts of more than 256 ids,
    or multilabel labels.
    Source: Ke et al. 2017, LightGBM: A Highly Efficient Gradient Boosting Decision Tree.
    """

    kind: Literal["trees"]
    learning_rate: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.05
    """Shrinkage: the share of its full correction that a tree applies. With half the rate, twice as many trees grow."""
    leaves: Annotated[int, Field(strict=True, ge=2, le=256)] = 31
    """Maximum number of leaves of a tree."""
    min_rows: Count = 10
    """Minimum number of train rows on a leaf."""
    row_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of the train rows that each round draws for its trees."""
    feature_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of the features that each tree may use."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on the leaf values."""


class TreesOrNetwork(_Network):
    """Trains boosted trees and then a network (`wide_deep`) with default settings; keeps the better on the eval split.

    Trees are better where categories and thresholds decide, networks where the label is a smooth function of numbers.
    Training takes the time of both, and `max_minutes` applies to each. Trees must support the features, the label and
    the loss. Keys of `training:` that trees do not read apply to the network only.
    """

    kind: Literal["auto"]


class Module(_Network):
    """A user-defined model: `module: package.module:build_model`.

    The function is called as `build_model(inputs, task, classes, options)`. `inputs` is an ordered dict of transformed
    feature name to `fullpass.trainer.models.model_inputs.ModelInput`, `task` is the label's task, `classes` is the
    number of classes (1 for binary and regression, one per level of `loss: quantile`), and `options` is the mapping
    given here. It must return an uncompiled keras.Model whose inputs are the `keras_input`s and whose output is logits
    float32 [batch, classes]. A model that outputs probabilities is refused.
    """

    kind: Literal["module"]
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`package.module:function`; the module must be importable where the pipeline runs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the function unchanged."""


ModelConfig = Annotated[
    Linear | Mlp | WideDeep | Dcn | Trees | TreesOrNetwork | Module,
    SelectedBy("kind", bare=True),
]
NETWORKS: Mapping[str, type[_Network]] = members_by_tag(ModelConfig)
"""The value of `kind` -> the class."""


class EarlyStopping(Spec):
    """Stops training when the eval log loss (regression: root mean squared error, or `training.loss`) stops falling.

    The weights of the best epoch are exported, with or without early stopping.
    """

    patience: Count = 5
    """Epochs without improvement before training stops. With `schedule: plateau`, epochs without improvement before
    each reduction of the learning rate and, after the last reduction, before training stops."""
    min_delta: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Smallest decrease that counts as an improvement."""


class CheckpointConfig(Spec):
    """When checkpoints are saved, from which an interrupted run resumes in the middle of an epoch.

    A checkpoint contains the weights, the optimizer state, the position in the epoch, the best weights and the history.
    """

    every_seconds: Literal["auto"] | Positive | None = "auto"
    """Seconds between two checkpoints; null uses `every_steps` only. auto: ten seconds, or a hundred times the write
    time of the last checkpoint if that is longer. So checkpoints take at most a hundredth of the time."""
    every_steps: Count | None = None
    """Updates between two checkpoints, in addition to `every_seconds`."""
    keep: Count = 2
    """Number of newest checkpoints to keep while training runs. All are removed once the model is exported."""


class ProfileConfig(Spec):
    """A trace for TensorBoard's Profiler."""

    steps: tuple[Count, Count]
    """First and last traced update, counted from 1 over the whole training. Tens of updates are enough."""

    @model_validator(mode="after")
    def _in_order(self) -> "ProfileConfig":
        if self.steps[0] > self.steps[1]:
            raise ValueError(f"steps: the first must not come after the last. Received: {list(self.steps)}.")
        return self


class TrainingConfig(Spec):
    """How the model is trained."""

    epochs: Literal["auto"] | Count = "auto"
    """Maximum passes over the train split. auto: until the eval split no longer improves, up to 100. With `kind: trees`
    an epoch is ten rounds."""
    max_minutes: Positive | None = 60.0
    """Minutes after which training stops with the best weights so far; null sets no limit. Minutes of interrupted runs
    count. A training that ends at this limit is not reproducible."""
    batch_size: Literal["auto"] | Count = "auto"
    """Examples per update. `auto`: the power of two nearest to train rows / 50, from 32 to 1024."""
    optimizer: Literal["adam", "adamw", "sgd", "adagrad", "ftrl"] = "adam"
    """The optimizer; sgd uses Nesterov momentum 0.9."""
    learning_rate: Literal["auto"] | Positive = "auto"
    """Peak learning rate, reached after `warmup`. auto: 0.003 for adam and adamw if the model reads only numbers and
    single categories and trains from scratch. Otherwise 0.001, such as for images, texts, lists, and with
    `warm_start`."""
    schedule: Literal["auto", "plateau", "constant", "cosine", "linear"] = "auto"
    """Learning-rate schedule after `warmup`. plateau: the rate is constant until the eval split has not improved for
    `patience` epochs. Then training restores the best weights and reduces the rate to a fifth; this happens at most
    twice. cosine, linear: the rate decays to zero over all epochs. auto: plateau with `epochs: auto` and early
    stopping, else cosine."""
    warmup: Fraction = 0.05
    """Share of all updates in which the learning rate rises from 0; with plateau, at most the first epoch."""
    weight_decay: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight decay of adamw."""
    clip_norm: Positive | None = None
    """Largest global norm of the gradient."""
    loss: LossConfig = Auto()
    """The loss that training minimizes. For a regression it defines the meaning of a prediction (docs/training.md)."""
    label_smoothing: Fraction = 0.0
    """Share of every label that is spread over all classes, for binary, multiclass and multilabel."""
    calibration: Literal["auto", "none"] = "auto"
    """auto: the effect of class weights on the probabilities is removed. The logits are scaled (for two classes also
    shifted) if that lowers the log loss of the eval split beyond chance. `loss: log_normal` predicts the mean. none:
    the probabilities stay as trained, and `loss: log_normal` predicts the median."""
    mask_rate: Fraction = 0.02
    """Share of the single-valued categories that an update replaces by missing or unknown, so that values never seen in
    train get about the mean prediction. 0 replaces none."""
    early_stopping: EarlyStopping | None = EarlyStopping()
    """null trains all epochs."""
    warm_start: Literal["none", "blessed"] | Name = "none"
    """Source of the initial weights. none: train from scratch. blessed: the last blessed model, which does not exist on
    a first run. Any other value: the folder of an exported model. Weights are matched by name of layer, feature and
    token (docs/retraining.md)."""
    seed: NonNegative = 1
    """Seed of Python, NumPy, Keras and the shuffle. The same data, config and initial weights give the same model on
    one CPU."""
    checkpoint: CheckpointConfig | None = CheckpointConfig()
    """When checkpoints are saved. null saves none: an interrupted run starts training again from the beginning."""
    profile: ProfileConfig | None = None
    """Traces some updates for TensorBoard's Profiler (docs/training.md)."""
    steps_per_execution: Literal["auto"] | Count = "auto"
    """Updates on the device per call. Between calls, Python checks whether to save or to stop. auto: as many as take
    about half a second."""
    accumulate: Count = 1
    """Gradient accumulation: the number of micro-batches into which a device splits its part of a batch to save memory.
    The update is that of the whole batch; only layers that use a batch as a whole (batch_norm) see micro-batches."""
    xla: Literal["auto"] | Flag = "auto"
    """Whether to compile the gradient with XLA. auto: on a single GPU if rows have the same shape in every batch (no
    text, no lists of categories); never on CPUs, where it does not pay. true: lists of categories are padded to the
    longest list of the split, because XLA recompiles for every new shape."""
    distribution: Literal["auto", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"
    """The devices to train on. auto uses the first that exists: the workers in TF_CONFIG, a TPU, all GPUs, one device.
    mirrored uses all GPUs of this machine, multi_worker the workers in TF_CONFIG, tpu the TPU in TPU_NAME."""
    scaling: Literal["none", "linear", "sqrt"] = "none"
    """Scaling with the number of devices. none: `batch_size` is the size of an update over all devices, so that the
    model is the same on any number of devices. linear, sqrt: `batch_size` is the size per device, and the learning rate
    is multiplied by the number of devices, or by its square root."""
    wait_for_workers: Positive = 600.0
    """Seconds that a worker waits for the other workers to start."""
    mixed_precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the hidden layers; weights, logits and losses stay float32. auto: bfloat16 on TPU and on GPUs that
    support it (capability 8.0 and above), float16 on older GPUs with tensor cores (7.0), float32 elsewhere."""

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
    """A tf.data service whose workers parse and transform for the trainer (docs/input.md)."""

    address: str | None = None
    """host:port of the dispatcher; by default the environment variable FULLPASS_INPUT_SERVICE."""
    wait_seconds: Positive = 60.0
    """Timeout in seconds for an answer of dispatcher and workers, and then for each block of rows. After a timeout,
    training fails with an error."""

    @model_validator(mode="after")
    def _host_and_port(self) -> "ServiceConfig":
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise ValueError(f"address must be host:port of a dispatcher. Received: {self.address}.")
        return self


class InputConfig(Spec):
    """How examples reach the model."""

    compute_at: ComputeAt = "transform"
    """Where features without a `compute_at` of their own are computed: transform (once, when examples are written),
    input (by the input function, while training reads) or model (in the training step). If transform computes no
    feature, no transformed examples are written."""
    cache: Literal["auto", "memory", "disk", "none"] = "auto"
    """Where parsed examples are kept between epochs. auto: in memory if they fit in `memory_fraction` of the free
    memory, else in blocks on disk, which the next training reuses. none parses them in every epoch."""
    memory_fraction: Annotated[Fraction, Field(gt=0)] = 0.25
    """Share of the free memory (of the container, if that is less) that one split may take."""
    cache_dir: str | None = None
    """Folder of the blocks on disk, local to the trainer; by default `input_cache` in the pipeline's root."""
    shuffle_buffer: Literal["auto"] | NonNegative = "auto"
    """Size of the shuffle buffer in examples; 0 does not shuffle. auto: 100,000. The order of the files also changes in
    every epoch. Examples in memory are all shuffled together, whatever the number."""
    readers: Literal["auto"] | Count = "auto"
    """Number of files that are read at the same time."""
    service: ServiceConfig | None = None
    """Lets other machines parse and transform; null reads the files in the trainer."""

    @model_validator(mode="before")
    @classmethod
    def _no_bad_records(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "bad_records" in value:
            raise ValueError(
                "bad_records is no longer an option: a damaged record of the transformed examples fails the training "
                "with an error that names its file, record and byte. Remove bad_records; to skip bad rows of raw data, "
                "set data.bad_rows."
            )
        return value

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


__all__ = [
    "NETWORKS",
    "CheckpointConfig",
    "Dcn",
    "EarlyStopping",
    "InputConfig",
    "Linear",
    "Mlp",
    "ModelConfig",
    "Module",
    "ProfileConfig",
    "ServiceConfig",
    "TrainerConfig",
    "TrainingConfig",
    "TrainingSpec",
    "Trees",
    "TreesOrNetwork",
    "WideDeep",
]
