"""Reads the splits of a training and sizes their batches."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fullpass.preprocessing.columns.outputs import most_pixels, outputs
from fullpass.trainer.config import VALIDATION, TrainingSpec
from fullpass.trainer.fit.optimizer import replica_batch_size
from fullpass.trainer.input.damage import check_features
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.input_plan import plan_reading
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import FeaturePlacement, InModel, placement_of
from fullpass.trainer.input.sharding import SplitShard, load_shard
from fullpass.trainer.input.workers import TrainingWorkers
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
    """The data and the statistics that a model is trained on.

    Attributes:
        train: The rows that a model learns from.
        validation: The rows that end its training, and choose between models and their corrections.
        evaluation: The rows that judge it; the same as `validation` if the data has no split of that name.
        folds: The fold of each train row in the order of the split, int [rows], if trees and linear models are chosen
            by train rows that they did not learn from; else None.
        of_single_rows: Whether the splits were cut row by row, so that train may be cut into folds.
    """

    placement: FeaturePlacement
    in_model: InModel | None
    train: SplitShard
    validation: SplitShard
    evaluation: SplitShard
    statistics: TrainStatistics
    batch_size: int
    replica_batch_size: int
    folds: np.ndarray | None = None
    of_single_rows: bool = False

    @property
    def shards(self) -> dict[str, SplitShard]:
        """The splits by name."""
        own = {} if self.validation is self.evaluation else {VALIDATION: self.validation}
        return {"train": self.train, **own, "eval": self.evaluation}

    @property
    def steps_per_epoch(self) -> int:
        """The number of updates per epoch."""
        return self.train.steps(self.replica_batch_size)


def load_data(
    train_files: Sequence[str],
    eval_files: Sequence[str],
    spec: TrainingSpec,
    workers: TrainingWorkers,
    validation_files: Sequence[str] = (),
) -> TrainingData:
    """Reads this worker's shard of all splits, and checks that there is something to learn.

    Args:
        validation_files: The files of the split validation; empty if the data has none.

    Raises:
        UserError: A split is empty, damaged, or has too few usable labels.
    """
    label, tft_output = spec.preprocessing.label, spec.tft_output
    names = class_names(label, tft_output)
    placement = placement_of(spec.preprocessing, transformed_outputs(spec.preprocessing, tft_output))
    given = {"train": train_files, "eval": eval_files, **({VALIDATION: validation_files} if validation_files else {})}
    files = {name: list_files(patterns, name) for name, patterns in given.items()}
    for split_files in files.values():
        check_features(split_files, placement, tft_output)
    in_model = InModel(placement, tft_output) if placement.in_model else None
    rows = RowSpec(
        decode=decoder(tft_output, placement, placement.read, len(names)),
        add_model_features=in_model.add_model_features if in_model else None,
        task=label.task,
        classes=len(names),
    )

    def load(name: str, own_files: tuple[str, ...]) -> Split:
        split = load_split(name, own_files, rows, plan_reading(spec.config.input, own_files))
        _LOG.info("input: split %s is %s", name, split.storage_note)
        return split

    shards: dict[str, SplitShard] = {}
    for name, of_split in files.items():
        shards[name] = load_shard(of_split, workers, partial(load, name))
        if name == "train":
            check_label(label, names, shards[name].counts)
    for name, shard in shards.items():
        check_loss(label, spec.config.training.loss, name, shard.counts)
    train, evaluation = shards["train"], shards["eval"]
    statistics = train_statistics(spec, train.split, train.counts, in_model, workers)
    validation = shards.get(VALIDATION, evaluation)
    return sized(TrainingData(placement, in_model, train, validation, evaluation, statistics, 0, 0), spec)


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
