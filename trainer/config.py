"""The sections `model:`, `training:` and `input:` of the YAML. Nothing here imports TensorFlow."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from fullpass.preprocessing.features.base_feature import ComputeAt
from fullpass.preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, Spec, discriminator
from fullpass.trainer.loss_config import Auto, LossConfig

ADDRESS = re.compile(r"[^\s:/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
"""host:port, or [IPv6 address]:port."""

MOST_EPOCHS = 100
"""Passes over the train split with `epochs: auto`."""

TREE_KEYS = ("epochs", "early_stopping", "max_minutes", "loss", "calibration", "seed", "distribution")
"""Keys of `training:` that `model: {kind: trees}` reads; all others are for networks."""

MOST_TREE_IDS = 256
"""Ids of a list or text under `model: {kind: trees}`, where each becomes a number."""

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
    """Of the hidden layers."""
    dropout: Fraction = 0.1
    """Share of hidden units dropped in training."""
    batch_norm: Flag = False
    """Normalise each hidden layer by the moments of its batch."""
    members: Annotated[Count, Field(le=64)] = 1
    """Networks that are trained as one: they share the hidden kernels, differ by a factor and a bias per unit, and the
    answer is the mean of their logits. 1 is a single network. Source: Gorishniy et al. 2024, TabM."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on hidden kernels."""


class Linear(_Network):
    """A generalised linear model: one weight per number and per id. The baseline every other must beat."""

    kind: Literal["linear"]
    l1: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L1 penalty on all kernels."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on all kernels."""


class Mlp(_Deep):
    """A multilayer perceptron over all encoded features."""

    kind: Literal["mlp"]


class WideDeep(_Deep):
    """A linear part over ids and crosses and a deep part over all features, added before the output.

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

    Exported as plain TensorFlow operations. Of `training:` they read the keys `epochs` (of ten rounds each, in which a
    tree per class grows), `early_stopping`, `max_minutes`, `loss`, `calibration`, `seed` and `distribution`; all others
    are for networks, and so are `encoding` of features and `input.shuffle_buffer`: `fullpass check` refuses them. Not
    for images, sequences, lists and texts of more than 256 ids, and multilabel labels.
    Source: Ke et al. 2017, LightGBM: A Highly Efficient Gradient Boosting Decision Tree.
    """

    kind: Literal["trees"]
    learning_rate: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.05
    """How much of what it could correct a tree corrects. With half of it, twice as many trees grow."""
    leaves: Annotated[int, Field(strict=True, ge=2, le=256)] = 31
    """Of a tree, at most."""
    min_rows: Count = 10
    """Train rows on a leaf, at least."""
    row_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of the train rows that each round draws for its trees."""
    feature_share: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.8
    """Share of the features that each tree may look at."""
    l2: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Weight of the L2 penalty on what leaves add."""


class TreesOrNetwork(_Network):
    """Boosted trees and then a network (`wide_deep`), both with their defaults: the better on the eval split is kept.

    Trees do better where categories and thresholds decide, networks where the label is a smooth function of numbers.
    It takes the time of both, and `max_minutes` is for each. Features, label and loss must be such as trees take; keys
    of `training:` that trees do not read are for the network alone.
    """

    kind: Literal["auto"]


class Module(_Network):
    """A model of your own: `module: package.module:build_model`.

    Called as `build_model(inputs, task, classes, options)`: `inputs` an ordered dict of transformed feature name to
    `fullpass.trainer.models.model_inputs.ModelInput`, `task` the label's task, `classes` the number of classes (1 for
    binary and regression, one per level of `loss: quantile`), `options` the mapping given here. Must return an
    uncompiled keras.Model whose inputs are the `keras_input`s and whose output are logits float32 [batch, classes].
    """

    kind: Literal["module"]
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`package.module:function`; the module must be importable where the pipeline runs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to the function as they are."""


NETWORKS: Mapping[str, type[_Network]] = {
    "linear": Linear,
    "mlp": Mlp,
    "wide_deep": WideDeep,
    "dcn": Dcn,
    "trees": Trees,
    "auto": TreesOrNetwork,
    "module": Module,
}


ModelConfig = Annotated[
    Annotated[Linear, Tag("linear")]
    | Annotated[Mlp, Tag("mlp")]
    | Annotated[WideDeep, Tag("wide_deep")]
    | Annotated[Dcn, Tag("dcn")]
    | Annotated[Trees, Tag("trees")]
    | Annotated[TreesOrNetwork, Tag("auto")]
    | Annotated[Module, Tag("module")],
    discriminator("kind", bare=True),
]


class EarlyStopping(Spec):
    """Stops when the eval split's log loss (regression: root mean squared error, or `training.loss`) stops falling.

    The weights of the best epoch are the ones exported, with or without early stopping.
    """

    patience: Count = 5
    """Epochs without improvement before training stops; with `schedule: plateau`, before each fall of the learning
    rate, and after the last fall before training stops."""
    min_delta: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Smallest fall that counts as an improvement."""


class CheckpointConfig(Spec):
    """When training is saved, so that a run that was cut short goes on in the middle of an epoch.

    Saved are the weights, the state of the optimizer, the position in the epoch, the best weights and the history.
    """

    every_seconds: Literal["auto"] | Positive | None = "auto"
    """Seconds between two checkpoints; null goes by `every_steps` alone. auto: ten seconds, or a hundred times what the
    last checkpoint took to write if that is more, so that at most a hundredth of the time goes into them."""
    every_steps: Count | None = None
    """Updates between two checkpoints, besides `every_seconds`."""
    keep: Count = 2
    """Newest checkpoints kept while training runs; all are removed once the model is exported."""


class ProfileConfig(Spec):
    """A trace for TensorBoard's Profiler."""

    steps: tuple[Count, Count]
    """First and last update traced, counted from 1 over the whole training. Tens of updates are enough."""

    @model_validator(mode="after")
    def _in_order(self) -> "ProfileConfig":
        if self.steps[0] > self.steps[1]:
            raise ValueError(f"steps: the first must not come after the last. Received: {list(self.steps)}.")
        return self


class TrainingConfig(Spec):
    """How the model is fitted."""

    epochs: Literal["auto"] | Count = "auto"
    """Passes over the train split, at most. auto: as many as the eval split gains from, up to 100. Of `kind: trees` an
    epoch is ten rounds."""
    max_minutes: Positive | None = 60.0
    """Minutes after which training stops, with the best weights so far; null is without limit. Minutes of interrupted
    runs count. A training that this limit ends is not the same when it is run again."""
    batch_size: Literal["auto"] | Count = "auto"
    """Examples per update. `auto`: the power of two nearest to train rows / 50, from 32 to 1024."""
    optimizer: Literal["adam", "adamw", "sgd", "adagrad", "ftrl"] = "adam"
    """How gradients become updates; sgd is with Nesterov momentum 0.9."""
    learning_rate: Literal["auto"] | Positive = "auto"
    """Largest learning rate, reached after `warmup`. auto: 0.003 for adam and adamw on numbers and single categories
    from scratch; 0.001 for all else, such as images, texts, lists, and with `warm_start`."""
    schedule: Literal["auto", "plateau", "constant", "cosine", "linear"] = "auto"
    """The learning rate after `warmup`. plateau: it stays until the eval split has not gained for `patience` epochs;
    then training goes back to the best weights and the learning rate falls to a fifth, twice. cosine, linear: it falls
    to zero over all epochs. auto: plateau with `epochs: auto` and early stopping, else cosine."""
    warmup: Fraction = 0.05
    """Share of all updates in which the learning rate rises from 0; with plateau at most the first epoch."""
    weight_decay: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """For adamw."""
    clip_norm: Positive | None = None
    """Largest global norm of the gradient."""
    loss: LossConfig = Auto()
    """What training makes smaller, and with that what a prediction of a regression means (docs/training.md)."""
    label_smoothing: Fraction = 0.0
    """For binary, multiclass and multilabel."""
    calibration: Literal["auto", "none"] = "auto"
    """auto: class weights are taken back from the probabilities, and logits stretched (of two classes, shifted too)
    where that lowers the log loss of the eval split beyond chance; `loss: log_normal` predicts the mean. none:
    probabilities as trained, and the median."""
    mask_rate: Fraction = 0.02
    """Share of the single-valued categories that an update takes as missing or unknown, so that values never seen in
    train get about the mean answer. 0 trains on the rows as they are."""
    early_stopping: EarlyStopping | None = EarlyStopping()
    """null trains all epochs."""
    warm_start: Literal["none", "blessed"] | Name = "none"
    """What the weights begin from: none is from scratch, blessed is the last blessed model (on a first run there is
    none), anything else the folder of an exported model. Matched by name of layer, feature and token (see
    docs/retraining.md)."""
    seed: NonNegative = 1
    """Seeds Python, NumPy, Keras and the shuffle: same data, config and beginning, same model on one CPU."""
    checkpoint: CheckpointConfig | None = CheckpointConfig()
    """null saves nothing: a run that was cut short trains again from the start."""
    profile: ProfileConfig | None = None
    """Traces some updates for TensorBoard's Profiler (docs/training.md)."""
    steps_per_execution: Literal["auto"] | Count = "auto"
    """Updates made on the device before Python looks again whether to save or to stop. auto: half a second's worth."""
    accumulate: Count = 1
    """Pieces in which a device computes the gradient of its part of a batch, one after the other, to save memory. The
    update is that of the whole batch; only layers that look at a batch as a whole (batch_norm) see pieces."""
    xla: Literal["auto"] | Flag = "auto"
    """Compile the gradient with XLA. auto: on a single GPU where rows have the same shape in every batch (no text, no
    lists of categories); never on CPUs, where it does not pay. With true, lists of categories are padded to the longest
    of the split, since every other shape would be compiled anew."""
    distribution: Literal["auto", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"
    """auto takes what is there: TF_CONFIG, then TPU, then all GPUs, then one device. mirrored is all GPUs of this
    machine, multi_worker the workers that TF_CONFIG names, tpu the one that TPU_NAME names."""
    scaling: Literal["none", "linear", "sqrt"] = "none"
    """What more than one device changes. none: `batch_size` is that of an update, over all devices, so that the model
    is the same on any number of them. linear, sqrt: `batch_size` is that of each device, and the learning rate is
    multiplied by the number of devices, or by its square root."""
    wait_for_workers: Positive = 600.0
    """Seconds that a worker of several waits for the others to start."""
    mixed_precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the hidden layers; weights, logits and losses stay float32. auto: bfloat16 on TPU and on GPUs that
    compute in it (capability 8.0 and above), float16 on older GPUs with tensor cores (7.0), float32 elsewhere."""

    @model_validator(mode="after")
    def _weight_decay_of_adamw(self) -> "TrainingConfig":
        if self.weight_decay > 0 and self.optimizer != "adamw":
            raise ValueError(f"weight_decay is for optimizer: adamw. Received: optimizer: {self.optimizer}.")
        return self

    @model_validator(mode="after")
    def _plateau_needs_patience(self) -> "TrainingConfig":
        if self.schedule == "plateau" and self.early_stopping is None:
            raise ValueError(
                "schedule: plateau falls by the patience of early_stopping, which is null. Use schedule: cosine, or "
                "leave early_stopping out."
            )
        return self

    @property
    def most_epochs(self) -> int:
        """The passes over the train split, at most."""
        return MOST_EPOCHS if self.epochs == "auto" else self.epochs

    @property
    def decay(self) -> Literal["plateau", "constant", "cosine", "linear"]:
        """How the learning rate falls."""
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
    """Seconds in which dispatcher and workers must answer, and then each block of rows must come; else training fails
    and says so."""

    @model_validator(mode="after")
    def _host_and_port(self) -> "ServiceConfig":
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise ValueError(f"address must be host:port of a dispatcher. Received: {self.address}.")
        return self


class InputConfig(Spec):
    """How examples reach the model."""

    compute_at: ComputeAt = "transform"
    """Where features are computed that do not say so themselves: transform (once, when examples are written), input (by
    the input function, as training reads) or model (in the training step). If none is computed by transform, no
    transformed examples are written."""
    cache: Literal["auto", "memory", "disk", "none"] = "auto"
    """Where parsed examples are kept between epochs. auto: in memory while they fit in `memory_fraction` of what is
    free, else in blocks on disk, where the next training finds them too. none parses them in every epoch."""
    memory_fraction: Annotated[Fraction, Field(gt=0)] = 0.25
    """Share of the free memory (the container's, where that is less) that one split may take."""
    cache_dir: str | None = None
    """Folder of the blocks on disk, local to the trainer; by default `input_cache` in the pipeline's root."""
    shuffle_buffer: Literal["auto"] | NonNegative = "auto"
    """Examples to shuffle among in every epoch; 0 does not shuffle. auto: 100,000, with the files in a new order too.
    Of examples in memory all are shuffled, whatever the number."""
    readers: Literal["auto"] | Count = "auto"
    """Files read at the same time."""
    service: ServiceConfig | None = None
    """Lets other machines parse and transform; null reads the files in the trainer."""

    @model_validator(mode="before")
    @classmethod
    def _no_bad_records(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "bad_records" in value:
            raise ValueError(
                "bad_records is no longer an option: a damaged record of the transformed examples fails the training, "
                "which names its file, record and byte. Remove bad_records; to leave out bad rows of raw data, set "
                "data.bad_rows."
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
                "service: its rows are sent once and kept by the trainer, which cache: none rules out. Use cache: "
                "auto, memory or disk, or leave out service."
            )
        return self


class TrainerConfig(Spec):
    """The sections the Trainer component receives."""

    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    input: InputConfig = InputConfig()


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
    "Trees",
    "TreesOrNetwork",
    "WideDeep",
]
