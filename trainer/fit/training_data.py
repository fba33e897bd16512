"""Reads both splits of a training and sizes their batches."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fullpass.preprocessing.columns.outputs import most_pixels, outputs
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.fit.optimizer import replica_batch_size
from fullpass.trainer.input.damage import check_features
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.input_plan import graph_digest, plan_reading
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import FeaturePlacement, InModel, placement_of
from fullpass.trainer.input.sharding import SplitShard, load_shard
from fullpass.trainer.input.workers import Workers
from fullpass.trainer.models.class_labels import check_label, check_loss, class_names
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.models.train_statistics import (
    TrainStatistics,
    train_statistics,
)
from fullpass.trainer.records.record_files import list_files

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingData:
    """The data and the statistics that a model is trained on."""

    placement: FeaturePlacement
    in_model: InModel | None
    train: SplitShard
    evaluation: SplitShard
    statistics: TrainStatistics
    batch_size: int
    replica_batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """The number of updates per epoch."""
        return self.train.steps(self.replica_batch_size)


def load_data(
    train_files: Sequence[str], eval_files: Sequence[str], spec: TrainingSpec, workers: Workers
) -> TrainingData:
    """Reads this worker's shard of both splits, and checks that there is something to learn.

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
    statistics = train_statistics(spec, train.split, train.counts, in_model, workers)
    return sized(TrainingData(placement, in_model, train, evaluation, statistics, 0, 0), spec)


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
