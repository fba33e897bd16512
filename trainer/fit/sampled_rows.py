"""Samples rows of a split as inputs of the network, for measurements on a trained model."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.placement import InModel, with_model_features
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.records.blocks import dense

_BATCH = 8192
"""Rows of a call of the network at most."""
_IMAGES = 1024
"""The same with images."""
_BATCH_BYTES = 8 << 20
"""Bytes of features of a call at most."""
_PIXELS = 16 << 20
"""Pixels of all sampled rows at most, but of no fewer than `_MIN_ROWS`."""
_MIN_ROWS = 100
"""Sampled rows of images at least: a share of 100 rows has a 95 % interval of 10 points to each side at most."""
_MAX_BYTES = 64 << 20
"""Bytes of all sampled rows at most, as a split stores them."""
_REACH = 1.96
"""Half the width of a 95 % interval of the normal distribution, in standard errors."""


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Rows that have a label.

    Attributes:
        features: Transformed features by input name: arrays [rows] or [rows, width], and lists of any length as ragged
            tensors.
        labels: In the form of batches: [rows], or [rows, classes] for a multilabel task.
        weights: float32 [rows], above 0, with a mean of 1: the unit of weights must not change a measurement.
    """

    features: Mapping[str, Any]
    labels: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def label_deviation(self) -> float:
        """The standard deviation of the labels of a regression; float32 would not hold the squares of some labels."""
        return float(self.labels.std(dtype=np.float64))

    def numbers(self, unit: float) -> np.ndarray:
        """Returns the labels of a regression in a unit, float64 [rows]."""
        return self.labels.astype(np.float64) / unit

    def first(self, rows: int) -> "SampledRows":
        """Returns the first rows."""
        return SampledRows({n: v[:rows] for n, v in self.features.items()}, self.labels[:rows], self.weights[:rows])

    def padded(self, name: str) -> np.ndarray:
        """Returns a feature, [rows] or [rows, width]; lists are padded with 0 to the longest one."""
        return np.asarray(dense(self.features[name]))

    def logits(self, network: Network) -> np.ndarray:
        """Returns the logits of a network, float32 [rows, columns]."""
        batches = self.batches(network, self.features)
        return np.concatenate([network.logits(batch).numpy() for batch in batches])

    def predictor(self, network: Network) -> Callable[[Mapping[str, Any]], np.ndarray]:
        """Returns a function that predicts these rows again and again, with some features changed.

        Inputs of one form are stacked, because a call takes 40 microseconds per tensor.
        """
        forms: dict[Any, list[keras.KerasTensor]] = {}
        for tensor in network.model.inputs:
            form = (tensor.dtype, *tensor.shape[1:])
            forms.setdefault(tensor.name if None in form else form, []).append(tensor)
        stacks = [[tensor.name for tensor in tensors] for tensors in forms.values()]
        places = {name: (number, at) for number, names in enumerate(stacks) for at, name in enumerate(names)}

        def apply(stacked: Sequence[tf.Tensor]) -> tf.Tensor:
            apart = (tf.unstack(stack, len(names)) for names, stack in zip(stacks, stacked, strict=True))
            features = dict(zip(chain(*stacks), chain(*apart), strict=True))
            return network.logits(features)

        signature = [tf.TensorSpec([len(same), *same[0].shape], same[0].dtype) for same in forms.values()]
        compute = tf.function(apply, input_signature=[signature], autograph=False)
        usual = [
            [np.stack([batch[name].numpy() for name in names]) for names in stacks]
            for batch in self.batches(network, self.features)
        ]

        def predict(changed: Mapping[str, Any]) -> np.ndarray:
            logits = []
            for stacked, other in zip(usual, self.batches(network, changed), strict=True):
                given = list(stacked)
                for name, value in other.items():
                    number, at = places[name]
                    if len(given[number]) == 1:  # lists may have another length
                        given[number] = value.numpy()[np.newaxis]
                        continue
                    if given[number] is stacked[number]:
                        given[number] = stacked[number].copy()
                    given[number][at] = value.numpy()
                logits.append(compute(given).numpy())
            return np.concatenate(logits)

        return predict

    def batches(self, network: Network, features: Mapping[str, Any]) -> Iterator[dict[str, tf.Tensor]]:
        """Yields those of some features of these rows that the network reads; fewer rows at once of long lists.

        A network takes several times the memory of its lists, which are padded to the longest one of the batch.
        """
        read = [tensor.name for tensor in network.model.inputs if tensor.name in features]
        row_bytes = sum(map(_most_bytes, self.features.values()))
        size = _IMAGES if network.pixels else min(_BATCH, max(1, _BATCH_BYTES // row_bytes))
        for at in range(0, len(self), size):
            yield {name: tf.convert_to_tensor(dense(features[name][at : at + size])) for name in read}


def rows_to_sample(network: Network, max_rows: int) -> int:
    """Returns the number of rows to sample: `max_rows`, or fewer with more than 16 MB of pixels, but at least 100."""
    return min(max_rows, max(_MIN_ROWS, _PIXELS // network.pixels)) if network.pixels else max_rows


def sample_rows(split: Split, in_model: InModel | None, rows: int) -> SampledRows:
    """Returns up to `rows` rows of a split that have a label, in shuffled order; fewer of large images."""
    rows = min(rows, max(1, _MAX_BYTES // max(1, split.row_bytes)))
    found, label, weight = split.sample(rows)
    features = {
        name: value if isinstance(value, tf.RaggedTensor) else value.numpy()
        for name, value in with_model_features(found, in_model).items()
    }
    return SampledRows(features, label.numpy(), _of_mean_one(weight.numpy()))


def _most_bytes(values: Any) -> int:
    """Returns the bytes of a row, of lists those of the longest one."""
    if isinstance(values, tf.RaggedTensor):
        return int(values.bounding_shape(axis=1)) * values.dtype.size
    return np.asarray(values[:1]).nbytes


def halves(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields two masks of rows twice: a random half to choose on and the other half, then the reverse; bool [rows]."""
    half = np.random.default_rng(rows).permutation(rows) % 2 == 0
    yield ~half, half
    yield half, ~half


def mean_and_reach(values: np.ndarray) -> tuple[float, float]:
    """Returns the mean of a number of each row, float [rows], and half the width of its 95 % interval."""
    return float(values.mean()), float(_REACH * values.std() / math.sqrt(len(values)))


def _of_mean_one(weights: np.ndarray) -> np.ndarray:
    return (weights / weights.mean(dtype=np.float64)).astype(np.float32)
