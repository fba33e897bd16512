"""Numbers of many texts that are written in one form."""

from collections.abc import Iterable

import numpy as np

from fullpass.preprocessing.expressions.number_text import BLANKS, number_text


def read_written(texts: Iterable[str], like: str) -> np.ndarray:
    """Returns the number of each text that is written like an example: float64 [texts], NaN without one of float32."""
    read = number_text(like).read
    numbers = np.array([np.nan if (n := read(text.strip(BLANKS))) is None else n for text in texts], np.float64)
    return np.where(np.abs(numbers) > np.finfo(np.float32).max, np.nan, numbers)
