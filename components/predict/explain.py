"""Computes the effect of each raw column on a prediction, relative to the prediction for a row of missing values.

The columns of a row replace missing values one after the other, in several orders. The effect of a column is the mean
change of the score when the column is added. In every order the changes add up to the whole difference; therefore the
effects do, too, exactly and for any model. Gradients are no alternative, because categories, texts and crosses have
none. Each order is used in both directions, so two interacting columns share their interaction equally. Sources:
Shapley 1953; Strumbelj and Kononenko 2014, Explaining Prediction Models and Individual Predictions with Feature
Contributions; Sundararajan and Najmi 2020, The Many Shapley Values for Model Explanation (the baseline).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

_ORDERS = 4
"""Random orders of the columns, each used in both directions: eight calls of the model per column."""

Inputs = Mapping[str, np.ndarray]
"""Raw column -> its values, dense, as in `InputBatch.inputs`."""
Predict = Callable[[Inputs], Mapping[str, np.ndarray]]
"""Inputs -> outputs of the model's signatures for the same rows."""


@dataclass(frozen=True, eq=False)
class Explained:
    """The explanation of the scores of some rows.

    Attributes:
        base: The score if every column is missing, float64 [rows].
        effects: Raw column -> its effect on the score, float64 [rows]; base and effects add up to the score.
    """

    base: np.ndarray
    effects: Mapping[str, np.ndarray]


def explain(predict: Predict, inputs: Inputs) -> Explained:
    """Explains the score of each row: a regression's prediction, or the probability of class 1 or the likeliest class.

    The model is called eight times per column. If at most two columns interact, for example if there are only two, the
    effects are the Shapley values. Otherwise they are the mean over eight orders of the columns.

    Args:
        inputs: The columns of the rows; all other columns count as missing.
    """
    whole = predict(inputs)
    likeliest = whole["scores"].argmax(axis=1) if whole["scores"].ndim == 2 else None
    nothing = {name: _missing(values) for name, values in inputs.items()}
    score = _score(whole, likeliest)
    # All rows have one base: in a batch, equal rows may differ in their last bit.
    of_nothing = predict({name: values[:1] for name, values in nothing.items()})["scores"]
    base = _score({"scores": np.repeat(of_nothing, len(score), axis=0)}, likeliest)
    effects = {name: np.zeros(len(score)) for name in inputs}
    orders = _orders(list(inputs))
    for order in orders:
        known, before = dict(nothing), base
        for name in order:
            known[name] = inputs[name]
            after = score if name == order[-1] else _score(predict(known), likeliest)
            effects[name] += (after - before) / len(orders)
            before = after
    return Explained(base, effects)


def _orders(names: list[str]) -> list[list[str]]:
    random = np.random.default_rng(1)
    drawn = [[names[i] for i in random.permutation(len(names))] for _ in range(_ORDERS)]
    return [order for one in drawn for order in (one, one[::-1])]


def _missing(values: np.ndarray) -> np.ndarray:
    return np.full(values.shape, b"" if values.dtype.kind in "OS" else np.nan, values.dtype)


def _score(answers: Mapping[str, np.ndarray], chosen: np.ndarray | None) -> np.ndarray:
    """Returns the scores, float64 [rows]; for several classes, the score of the chosen class of each row."""
    scores = answers["scores"].astype(np.float64)
    return scores if chosen is None else scores[np.arange(len(scores)), chosen]
