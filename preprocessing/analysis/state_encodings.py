"""Encodes states of TF Transform's combiners for the analyzer cache.

| combiner | encoding of its state |
|---|---|
| sums, minima, maxima, means, variances, covariances | JSON lists of numbers, by TF Transform's own coder |
| quantiles | the serialized protocol buffer of tfx_bsl's sketch |
| moments (scale_to_gaussian) | one array after another in the format NPY |

Others may write to the cache, so decoding a state never runs code that the bytes name, as pickle would. A combiner that
is not in the table has no encoding. TF Transform then analyzes the function itself, and nothing is cached.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from fullpass.preprocessing.internals.tft_internals import LMomentsCombiner, QuantilesCombiner, analyzer_nodes
from fullpass.preprocessing.internals.tfx_bsl_internals import QuantilesSketch


class _Sketch(analyzer_nodes.CacheCoder):
    def encode_cache(self, cache: Any) -> bytes:
        return cache.__getstate__()

    def decode_cache(self, encoded_cache: bytes) -> Any:
        sketch = QuantilesSketch.__new__(QuantilesSketch)
        sketch.__setstate__(encoded_cache)
        return sketch


class _Arrays(analyzer_nodes.CacheCoder):
    """Encodes a state that is a named tuple of arrays."""

    def __init__(self, of: type) -> None:
        self._of = of

    def encode_cache(self, cache: Sequence[Any]) -> bytes:
        stream = io.BytesIO()
        for array in cache:
            np.save(stream, np.asarray(array), allow_pickle=False)
        return stream.getvalue()

    def decode_cache(self, encoded_cache: bytes) -> Any:
        stream = io.BytesIO(encoded_cache)
        arrays = []
        while stream.tell() < len(encoded_cache):
            arrays.append(np.load(stream, allow_pickle=False))
        return self._of(*arrays)


def encoding_of(combiner: analyzer_nodes.Combiner) -> analyzer_nodes.CacheCoder | None:
    """Returns the encoding of a combiner's states; None if its states must not be cached."""
    if isinstance(combiner, QuantilesCombiner):
        return _Sketch()
    if isinstance(combiner, LMomentsCombiner):
        return _Arrays(combiner.accumulator_class)
    coder = combiner.accumulator_coder
    return coder if type(coder) is analyzer_nodes.JsonNumpyCacheCoder else None
