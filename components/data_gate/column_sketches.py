"""Sketches of the columns of one file, from which distributions are made: the sketches of TFDV and TF Transform."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.data_gate.distribution import ATOMS, Distribution, category_distribution, number_distribution
from fullpass.preprocessing.internals.tfx_bsl_internals import MisraGriesSketch, QuantilesSketch

_SKETCHED = 4096
"""Number of distinct tokens per file up to which the counts are exact."""
_LONGEST_TOKEN = 256
"""Longest token, in bytes. Its beginning and a digest replace a longer token, which keeps documents out of sketches."""
_BEGINNING = 64
_SKETCH_ERROR = 5e-4
_MOST_ROWS = 1 << 32


class NumberSketch:
    """A quantile sketch of the numbers of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = QuantilesSketch(_SKETCH_ERROR, _MOST_ROWS, 1)
        self._present = self._missing = 0

    def add(self, values: np.ndarray, missing: int) -> None:
        """Adds float [n]; values that are not finite count as missing."""
        finite = values[np.isfinite(values)].astype(np.float64)
        self._present += len(finite)
        self._missing += missing + len(values) - len(finite)
        if len(finite):
            self._sketch.AddValues(pa.array(finite))

    def distribution(self) -> Distribution:
        """Returns the distribution of the added numbers."""
        if not self._present:
            return Distribution("number", missing=float(self._missing))
        quantiles = self._sketch.GetQuantilesAndCumulativeWeights(ATOMS)
        values, below = (np.asarray(part.flatten(), dtype=np.float64) for part in quantiles)
        return number_distribution(values, below, missing=float(self._missing))


def _short(tokens: pa.Array) -> pa.Array:
    """Returns tokens, each long one replaced by its beginning and a digest. Equal tokens stay equal."""
    sizes = pc.binary_length(tokens)
    if pc.max(sizes).as_py() <= _LONGEST_TOKEN:
        return tokens
    long = pc.greater(sizes, _LONGEST_TOKEN)
    shortened = [_beginning_and_digest(token.as_buffer()) for token in tokens.filter(long)]
    return pc.replace_with_mask(tokens, long, pa.array(shortened, pa.binary()))


def _beginning_and_digest(token: pa.Buffer) -> bytes:
    view = memoryview(token)
    beginning = bytes(view[:_BEGINNING]).decode("utf-8", "ignore").encode()
    return beginning + f" ... {hashlib.sha256(view).hexdigest()[:16]} ({len(view):,} bytes)".encode()


class TokenSketch:
    """A heavy-hitter sketch of the tokens of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = MisraGriesSketch(_SKETCHED)
        self._present = self._missing = 0

    def add(self, tokens: pa.Array, missing: int) -> None:
        """Adds tokens, string or binary [n] without nulls."""
        self._present += len(tokens)
        self._missing += missing
        if len(tokens):
            self._sketch.AddValues(_short(tokens.cast(pa.binary())))

    def distribution(self) -> Distribution:
        """Returns the distribution of the added tokens, without tokens that an approximate count may rank too high."""
        estimate = self._sketch.Estimate().flatten() if self._present else [pa.array([]), pa.array([])]
        tokens, counts = estimate[0].to_pylist(), np.asarray(estimate[1], dtype=np.float64)
        counted = {token.decode("utf-8", "replace"): count for token, count in zip(tokens, counts, strict=True)}
        complete = len(tokens) < _SKETCHED
        least = 0.0 if complete else 4 * self._present / _SKETCHED  # a count is too large by a quarter of this at most
        return category_distribution(counted, self._present, float(self._missing), complete=complete, least=least)
