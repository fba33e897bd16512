"""Statistics of the train split that a model is built from: of its labels, its numbers and its images.

The knots of a number are quantiles of train, between which the encoding of the number is linear. The moments of an
image are the mean and the deviation of its pixels, from a full pass over train.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fullpass.preprocessing.columns.outputs import input_name
from fullpass.preprocessing.features.image_feature import Constants, ImageFeature
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.placement import InModel, with_model_features
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.models.class_labels import class_factors, class_names
from fullpass.trainer.models.model_inputs import transformed_outputs

BINS = 48
"""The maximum number of intervals between knots."""
_ROWS = 65_536
"""Train rows that knots are found in at most."""
_MAX_BYTES = 256 << 20
"""Bytes of these rows at most, as a split stores them."""
_MIN_WIDTH = 1 / 400
"""Smallest distance of two knots, as a share of that of the quantiles 0.05 and 0.95."""
_USUAL = (0.05, 0.95)
"""Quantiles between which values are usual; the distance of knots is a share of it, so that outliers widen none."""
_BATCH_ROWS = 4096
"""Rows of a batch of images at most."""
_BATCH_BYTES = 32 << 20
"""Bytes of pixels that are read at once for the statistics of images."""

Knots = Mapping[str, np.ndarray]
"""Transformed feature -> float32 [BINS + 1], rising; the last knot is repeated if a number has fewer."""
PixelMoments = Mapping[str, np.ndarray]
"""Transformed feature -> float32 [2, channels]: the mean and the deviation of pixels from 0 to 255."""


@dataclass(frozen=True)
class TrainStatistics:
    """Statistics of the label, the numbers and the images in the train split.

    Attributes:
        names: The class names in id order; empty for regression.
        factors: The factor of the training weight per class, float [classes]; empty for none.
        moments: Mean and deviation of the channels of images, by transformed feature.
    """

    names: tuple[str, ...]
    counts: SplitCounts
    factors: np.ndarray
    knots: Knots = field(default_factory=dict)
    moments: PixelMoments = field(default_factory=dict)


def train_statistics(
    spec: TrainingSpec, split: Split, counts: SplitCounts, in_model: InModel | None, workers: TrainingWorkers
) -> TrainStatistics:
    """Returns the statistics of the train split; they are the same on all workers."""
    names = class_names(spec.preprocessing.label, spec.tft_output)
    features = transformed_outputs(spec.preprocessing, spec.tft_output)
    return TrainStatistics(
        names=names,
        counts=counts,
        factors=class_factors(spec.preprocessing.label, names, counts),
        knots=_agreed(sample_knots(split, features, in_model, spec.config.training.seed), workers),
        moments=pixel_moments(split, features, in_model, workers),
    )


def sample_knots(split: Split, features: Sequence[Output], in_model: InModel | None, seed: int) -> Knots:
    """Returns the knots of the numbers of a split, except vectors, from up to 65,536 rows in shuffled order."""
    if not any(output.kind == "dense" for output in features):
        return {}
    few = max(1, min(_ROWS, _MAX_BYTES // max(1, split.row_bytes)))
    rows, _, _ = split.sample(few, seed)
    found = with_model_features(rows, in_model)
    values = {o.name: found[input_name(o.name)] for o in features if o.kind == "dense"}
    return {name: knots_of(value.numpy()) for name, value in values.items() if value.shape.rank == 1}


def knots_of(values: np.ndarray) -> np.ndarray:
    """Returns the knots of a number, float32 [BINS + 1].

    A value that more than one in BINS rows has is a knot of its own. The other knots are quantiles of all other values,
    so that the other values of a number that is mostly 0 have knots too. Knots that are closer than a four-hundredth of
    the range of the middle nine tenths are merged, because float32 rounding would change the encoding between them.

    Args:
        values: Finite numbers, float32 [rows].
    """
    values = values.astype(np.float64)
    distinct, counts = np.unique(values, return_counts=True)
    found = distinct[counts > len(values) / BINS]
    others = values[~np.isin(values, found)]
    if len(others):
        shares = np.linspace(0, 1, BINS + 1 - len(found))
        found = np.union1d(found, np.quantile(others, shares, method="nearest"))
    low, high = np.quantile(values, _USUAL)
    least = _MIN_WIDTH * float((high - low) or np.ptp(values))
    kept = [found[0]]
    for knot in found[1:]:
        if knot - kept[-1] > least:
            kept.append(knot)
    return np.array([*kept, *[kept[-1]] * (BINS + 1 - len(kept))], np.float32)


def _agreed(knots: Knots, workers: TrainingWorkers) -> Knots:
    """Returns the mean of the knots of all workers, so that they build the same model."""
    if not knots:
        return knots
    together = np.stack(list(knots.values()))
    mean = workers.all_gather(together.ravel().tolist()).mean(axis=0).reshape(together.shape)
    return dict(zip(knots, mean.astype(np.float32), strict=True))


def pixel_moments(
    split: Split, features: Sequence[Output], in_model: InModel | None, workers: TrainingWorkers
) -> PixelMoments:
    """Returns the moments that normalise the pixels of each image; they are the same on all workers.

    Args:
        split: This worker's rows of train; those of weight 0 do not count.
        in_model: Computes the features that are computed in the model; None without any.
    """
    images = {output.name: output.image for output in features if output.image is not None}
    learned = [name for name, image in images.items() if image.normalize == "train"]
    sums = _sums(split, {name: images[name] for name in learned}, in_model) if learned else {}
    found = {name: _moments(workers.all_gather(sums[name].ravel().tolist()).sum(axis=0)) for name in learned}
    return {name: found[name] if name in found else _given(image) for name, image in images.items()}


def _sums(split: Split, images: Mapping[str, ImageFeature], in_model: InModel | None) -> dict[str, np.ndarray]:
    """Returns the number of pixels, their sum and the sum of their squares: float64 [3, channels] of each image."""
    sums = {name: np.zeros((3, image.channels)) for name, image in images.items()}
    largest = max(int(np.prod(image.shape)) for image in images.values())
    size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest))
    for rows, _, _ in split.batches(BatchOrder(batch_size=size)).take(-(-split.counts.weighted_rows // size)):
        found = with_model_features(rows, in_model)
        for name, total in sums.items():
            pixels = found[input_name(name)].numpy()
            pixels = pixels.reshape(-1, pixels.shape[-1])
            squares = np.square(pixels.astype(np.float32))  # exact: at most 255 squared
            total += [np.full(total.shape[1], len(pixels)), pixels.sum(0, np.float64), squares.sum(0, np.float64)]
    return sums


def _moments(sums: np.ndarray) -> np.ndarray:
    count, total, squares = sums.reshape(3, -1)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    return np.stack([mean, np.where(deviation > 0, deviation, 1.0)]).astype(np.float32)


def _given(image: ImageFeature) -> np.ndarray:
    if not isinstance(image.normalize, Constants):
        return np.stack([np.zeros(image.channels), np.ones(image.channels)]).astype(np.float32)
    both = (image.normalize.mean, image.normalize.deviation)
    return np.stack([np.broadcast_to(numbers, image.channels) for numbers in both]).astype(np.float32)
