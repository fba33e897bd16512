"""Standard errors that are corrected for skewness, by scipy, from a metric without each group of rows."""

import numpy as np
from scipy import stats


def corrected_error(without: np.ndarray) -> float:
    """Returns the error of which Student's quantile gives the farther end of Hall's interval. without: [groups]."""
    count = len(without)
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    by_chance = 6 / count  # the variance of the skewness of as many normal values
    skewness = np.sqrt(max(stats.skew(without, bias=False) ** 2 - by_chance, 0) / count)
    t = stats.t.ppf(0.975, count - 1)
    return error * (1 + skewness * (2 * t**2 + 1) / 6 / t)
