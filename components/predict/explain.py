"""How much each raw column moves a prediction from where it would be if nothing were known of the row.

The columns of a row are put in place of missing values one after the other, in several orders; the effect of a column
is the mean change of the score when it came. In every order the changes add up to the whole difference, so effects do
too, exactly, whatever the model: categories, texts and crosses have no gradient to follow. Each order is gone through
from both ends, by which two columns that act together share that equally. Sources: Shapley 1953; Strumbelj and
Kononenko 2014, Explaining Prediction Models and Individual Predictions with Feature Contributions; Sundararajan and
Najmi 2020, The Many Shapley Values for Model Explanation (the baseline).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

_ORDERS = 4

Inputs = Mapping[str, np.ndarray]
"""Raw column -> its values, dense, as `InputBatch.inputs` holds them."""
Answer = Callable[[Inputs], Mapping[str, np.ndarray]]
"""Inputs of as many rows -> what the model's signatures give."""


@dataclass(frozen=True, eq=False)
class Explained:
    """What made the scores of some rows.

    Attributes:
        base: The score if every column is missing, float64 [rows].
        effects: Raw column -> by how much it moves the score, float64 [rows]; base and effects add up to the score.
    """

    base: np.ndarray
    effects: Mapping[str, np.ndarray]


def explain(answer: Answer, inputs: Inputs) -> Explained:
    """Explains the score of each row: a regression's prediction, or the probability of class 1 or the likeliest class.

    The model answers eight times per column. Of two columns, and wherever no more than two act together, effects are
    the Shapley values; else they are the mean over eight orders of the columns.

    Args:
        answer: Of the model.
        inputs: The columns that the rows have; others count as missing throughout.
    """
    whole = answer(inputs)
    likeliest = whole["scores"].argmax(axis=1) if whole["scores"].ndim == 2 else None
    nothing = {name: _missing(values) for name, values in inputs.items()}
    score, base = _score(whole, likeliest), _score(answer(nothing), likeliest)
    effects = {name: np.zeros(len(score)) for name in inputs}
    orders = _orders(list(inputs))
    for order in orders:
        known, before = dict(nothing), base
        for name in order:
            known[name] = inputs[name]
            after = score if name == order[-1] else _score(answer(known), likeliest)
            effects[name] += (after - before) / len(orders)
            before = after
    return Explained(base, effects)


def _orders(names: list[str]) -> list[list[str]]:
    """Returns orders of names, each with its reverse."""
    random = np.random.default_rng(1)
    drawn = [[names[i] for i in random.permutation(len(names))] for _ in range(_ORDERS)]
    return [order for one in drawn for order in (one, one[::-1])]


def _missing(values: np.ndarray) -> np.ndarray:
    """Returns as many missing values."""
    return np.full(values.shape, b"" if values.dtype.kind in "OS" else np.nan, values.dtype)


def _score(answers: Mapping[str, np.ndarray], chosen: np.ndarray | None) -> np.ndarray:
    """Returns the scores, of several classes that of the one chosen for each row, float64 [rows]."""
    scores = answers["scores"].astype(np.float64)
    return scores if chosen is None else scores[np.arange(len(scores)), chosen]
