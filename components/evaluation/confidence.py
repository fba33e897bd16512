"""How many standard errors make a difference that is more than chance."""

from statistics import NormalDist

GROUPS = 40
"""Groups of rows that standard errors are computed from. With n groups one is itself uncertain by a share of
1 / sqrt(2 * (n - 1)): 11 %."""


def quantile(confidence: float) -> float:
    """Returns by how many standard errors a metric exceeds its true value by chance in all but `confidence` of cases.

    It is the quantile of Student's t with GROUPS - 1 degrees of freedom, by its expansion around the normal one.

    Args:
        confidence: share of cases, between 0 and 1.
    """
    z, freedom = NormalDist().inv_cdf(confidence), GROUPS - 1
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
