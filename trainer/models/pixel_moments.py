"""Computes the mean and the deviation of the pixels of train, in a full pass over its rows."""

from collections.abc import Mapping, Sequence

import numpy as np

from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import Output
from fullpass.preprocessing.features.image_feature import Constants, ImageFeature
from fullpass.trainer.fit.worker_channel import Workers
from fullpass.trainer.input.batch_order import BatchOrder
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.placement import InModel
from fullpass.trainer.models.model_inputs import input_name

PixelMoments = Mapping[str, np.ndarray]
"""Transformed feature -> float32 [2, channels]: the mean and the deviation of pixels from 0 to 255."""

_BATCH_BYTES = 32 << 20


def pixel_moments(split: Split, features: Sequence[Output], in_model: InModel | None, workers: Workers) -> PixelMoments:
    """Returns the moments that normalise the pixels of each image; they are the same on all workers.

    Args:
        split: This worker's rows of train; those of weight 0 do not count.
        features: The transformed features that the model reads.
        in_model: Computes the features that are computed in the model; None without any.
        workers: The workers that train together.
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
    size = max(1, min(4096, _BATCH_BYTES // largest))
    for rows, _, _ in split.batches(BatchOrder(batch_size=size)).take(-(-split.counts.weighted_rows // size)):
        found = dict(rows)
        if in_model is not None:
            columns = {raw_name(name): rows[input_name(raw_name(name))] for name in in_model.columns}
            found |= {input_name(name): value for name, value in in_model(columns).items()}
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
