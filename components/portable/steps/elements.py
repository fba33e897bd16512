"""Arrays of texts, and functions that are applied to each of their elements."""

import numpy as np


def encoded(value):
    """Returns a text as bytes; bytes stay."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def object_array(values):
    """Returns texts as an array."""
    made = np.empty(len(values), object)
    made[:] = values
    return made


def each(function, dtype=object):
    """Returns a function that applies `function` to every element of its arrays."""

    def apply(*arrays, **_):
        together = arrays if len(arrays) == 1 else np.broadcast_arrays(*arrays)
        made = np.empty(together[0].size, dtype)
        made[:] = [function(*values) for values in zip(*(array.ravel().tolist() for array in together), strict=True)]
        return made.reshape(together[0].shape)

    return apply


def rows_of_lengths(lengths, values):
    """Returns rows of the given lengths as a sparse tensor: positions int64 [n, 2], values, and shape."""
    lengths = np.asarray(lengths, np.int64)
    owners, begins = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    positions = np.stack([owners, np.arange(len(owners)) - begins[owners]], axis=1).astype(np.int64)
    return positions, values, np.array([len(lengths), lengths.max(initial=0)], np.int64)
