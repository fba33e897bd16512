"""The number of standard errors beyond which a difference is more than chance."""

from statistics import NormalDist

GROUPS = 40
"""Number of groups of rows for standard errors. With n groups, a standard error has a relative uncertainty of
1 / sqrt(2 * (n - 1)): 11 %."""


def quantile(confidence: float, freedom: float = GROUPS - 1) -> float:
    """Returns the number of standard errors by which a metric exceeds its true value with probability 1 - `confidence`.

    It is the quantile of Student's t, by its expansion around the normal quantile.

    Args:
        confidence: Share of cases, between 0 and 1.
        freedom: Degrees of freedom, at least 7.
    """
    z = NormalDist().inv_cdf(confidence)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def half_width(error: float) -> float:
    """Returns half the width of the 95 % interval around a value with this standard error; NaN if it is unknown."""
    return quantile(0.975) * error
