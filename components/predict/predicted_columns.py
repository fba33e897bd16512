"""Names of the columns that `fullpass predict` adds to the rows."""

from collections.abc import Collection, Iterable, Sequence

PREDICTION = "prediction"
BASE = "base"
EFFECT = "effect_"
BAD_ROW = "bad_row"
"""Column of the output with the reason why a row has no prediction; null for a row with a prediction."""


def score_columns(classes: Sequence[str], levels: Sequence[float]) -> list[str]:
    """Returns the columns of the probabilities of classes, or of the quantiles of a regression."""
    return [f"probability_{name}" for name in classes] or [f"quantile_{level:g}" for level in levels]


def taken_names(names: Iterable[str], scores: Collection[str]) -> list[str]:
    """Returns those among the names of columns that are also names of added columns."""
    return [name for name in names if name in (PREDICTION, BAD_ROW, *scores)]
