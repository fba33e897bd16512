"""Reads both splits of a training and sizes their batches."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fullpass.preprocessing.columns.outputs import most_pixels, outputs
from fullpass.trainer.fit.class_labels import check_label, check_loss, class_factors, class_names
from fullpass.trainer.fit.optimizer import replica_batch_size
from fullpass.trainer.fit.sharding import SplitShard, load_shard
from fullpass.trainer.fit.worker_channel import Workers
from fullpass.trainer.input.corrupt_records import check_features
from fullpass.trainer.input.input_fn import decoder, list_files
from fullpass.trainer.input.input_plan import graph_digest, plan_reading
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import FeaturePlacement, InModel, placement_of
from fullpass.trainer.models.build_network import TrainStatistics
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.models.number_knots import Knots, sample_knots
from fullpass.trainer.models.pixel_moments import PixelMoments, pixel_moments
from fullpass.trainer.training_spec import TrainingSpec

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """The data and the statistics that a model is trained on.

    Attributes:
        placement: Where each feature is computed.
        in_model: Computes the features that are computed in the model; None without any.
        train: This worker's shard of the train split.
        evaluation: This worker's shard of the eval split.
        names: The class names in id order; empty for regression.
        factors: The factor of the training weight per class; empty for none.
        knots: The knots of numbers, by transformed feature.
        moments: Mean and deviation of the channels of images, by transformed feature.
        batch_size: The number of examples of an update, over all replicas.
        replica_batch_size: The number of examples of an update on each replica.
    """

    placement: FeaturePlacement
    in_model: InModel | None
    train: SplitShard
    evaluation: SplitShard
    names: tuple[str, ...]
    factors: np.ndarray
    knots: Knots
    moments: PixelMoments
    batch_size: int
    replica_batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of updates per epoch."""
        return self.train.steps(self.replica_batch_size)

    @property
    def statistics(self) -> TrainStatistics:
        """The statistics of the train split."""
        return TrainStatistics(self.names, self.train.counts, self.factors, self.knots, self.moments)


def load_data(
    train_files: Sequence[str], eval_files: Sequence[str], spec: TrainingSpec, workers: Workers
) -> TrainingData:
    """Reads this worker's shard of both splits, and checks that there is something to learn.

    Args:
        train_files: The file patterns of the train split.
        eval_files: The file patterns of the eval split.
        spec: The configuration of the features, the label and the reading of files.
        workers: The workers that train together.

    Raises:
        UserError: A split is empty, damaged, or has too few usable labels.
    """
    label, tft_output = spec.preprocessing.label, spec.tft_output
    names = class_names(label, tft_output)
    placement = placement_of(spec.preprocessing, transformed_outputs(spec.preprocessing, tft_output))
    files = {"train": list_files(train_files, "train"), "eval": list_files(eval_files, "eval")}
    for split_files in files.values():
        check_features(split_files, placement, tft_output)
    in_model = InModel(placement, tft_output) if placement.in_model else None
    rows = RowSpec(
        decode=decoder(tft_output, placement, placement.read, len(names)),
        add_model_features=in_model.add_model_features if in_model else None,
        task=label.task,
        classes=len(names),
    )
    key = {
        "transform graph": graph_digest(tft_output),
        "features": list(placement.read),
        "places": repr(placement),
        "label": [label.task, len(names)],
    }

    def load(name: str, own_files: tuple[str, ...]) -> Split:
        split = load_split(name, own_files, rows, plan_reading(spec.config.input, name, own_files, key))
        _LOG.info("input: split %s is %s", name, split.storage_note)
        return split

    train = load_shard(files["train"], workers, lambda own: load("train", own), len(names))
    check_label(label, names, train.counts)
    evaluation = load_shard(files["eval"], workers, lambda own: load("eval", own), len(names))
    for split, counts in (("train", train.counts), ("eval", evaluation.counts)):
        check_loss(label, spec.config.training.loss, split, counts)
    factors = class_factors(label, names, train.counts)
    features = transformed_outputs(spec.preprocessing, tft_output)
    knots = _agreed(sample_knots(train.split, features, in_model, spec.config.training.seed), workers)
    moments = pixel_moments(train.split, features, in_model, workers)
    data = TrainingData(placement, in_model, train, evaluation, names, factors, knots, moments, 0, 0)
    return sized(data, spec)


def _agreed(knots: Knots, workers: Workers) -> Knots:
    """Returns the mean of the knots of all workers, so that they build the same model."""
    if not knots:
        return knots
    together = np.stack(list(knots.values()))
    mean = workers.all_gather(together.ravel().tolist()).mean(axis=0).reshape(together.shape)
    return dict(zip(knots, mean.astype(np.float32), strict=True))


def sized(data: TrainingData, spec: TrainingSpec) -> TrainingData:
    """Returns the same data with the batch sizes of a training."""
    workers = data.train.workers
    replicas = workers.count * workers.replicas
    weighted_rows = data.train.counts.weighted_rows
    pixels = most_pixels(outputs(spec.preprocessing))
    per_replica = replica_batch_size(spec.config.training, weighted_rows, replicas, pixels)
    size = per_replica * replicas
    if weighted_rows < size:
        _LOG.warning(
            "input: split train has %d rows, less than a batch of %d: an epoch is one update", weighted_rows, size
        )
    return replace(data, batch_size=size, replica_batch_size=per_replica)
