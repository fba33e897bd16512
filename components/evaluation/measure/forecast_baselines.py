"""Measures the baselines of a forecast beside the model: on the eval rows for which a baseline is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS, half_width
from fullpass.components.evaluation.measure.sampling_error import group_of, standard_errors, sums_without_each
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows, SliceValue
from fullpass.preprocessing.features.label import Label, binary_class
from fullpass.preprocessing.token_spelling import as_token

_SUMS = 4
"""Weight, the model's loss, the baseline's loss, and rows. The loss is the squared error, or 1 for a wrong class."""


@dataclass(frozen=True)
class ForecastBaselines:
    """The baselines of a label.

    Attributes:
        columns: Raw column with the value that the baseline predicts -> its name for people.
    """

    label: Label
    columns: Mapping[str, str]

    def start(self) -> np.ndarray:
        """Returns the sums before the first batch, float64 [baselines, sums, groups]."""
        return np.zeros((len(self.columns), _SUMS, GROUPS))

    def sums(self, batch: ScoredRows) -> np.ndarray:
        """Returns the sums of a batch, whose `columns` have those of the baselines."""
        found, model = self.start(), batch.models[0]
        groups = group_of(batch.row_ids)
        if not len(groups):
            return found
        ours = self._loss(model, self._predicted(model))
        for sums, column in zip(found, self.columns, strict=True):
            values = self._values(batch.columns[column], model.classes)
            known = (model.weights > 0) & ~np.isnan(values)
            theirs = self._loss(model, values)
            for position, term in enumerate((model.weights, model.weights * ours, model.weights * theirs, 1.0 * known)):
                sums[position] = np.bincount(groups[known], term[known], minlength=GROUPS)
        return found

    def results(self, sums: np.ndarray) -> list[dict[str, Any]]:
        """Returns the metrics of model and baseline on the same rows, as `simple_reference` records them.

        Returns:
            Per baseline: kind, metric, reference, network, reach, eval_rows. reference and network are None if the
            baseline is known for no row, and reach is None if it cannot be estimated.
        """
        found: list[dict[str, Any]] = []
        for kind, of in zip(self.columns.values(), sums, strict=True):
            rows = int(of[3].sum())
            network, reference = self._metrics(of.sum(axis=1))
            without = self._metrics(sums_without_each(of, axis=-1))
            error = standard_errors((without[0] - without[1])[None], of[3][None] > 0)[0]
            found.append(
                {
                    "kind": kind,
                    "metric": "rmse" if self.label.task == "regression" else "accuracy",
                    "reference": float(reference) if rows else None,
                    "network": float(network) if rows else None,
                    "reach": None if np.isnan(error) else half_width(error),
                    "eval_rows": rows,
                }
            )
        return found

    def _metrics(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the metric of the model and that of the baseline. sums: float64 [sums, ...]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ours, theirs = sums[1] / sums[0], sums[2] / sums[0]
        return (np.sqrt(ours), np.sqrt(theirs)) if self.label.task == "regression" else (1 - ours, 1 - theirs)

    def _predicted(self, model: Scored) -> np.ndarray:
        """Returns the number or the id of the class that the model predicts, float64 [rows]."""
        if self.label.task == "regression":
            return model.scores
        return model.predicted if model.scores.ndim == 1 else model.scores.argmax(axis=1).astype(np.float64)

    def _loss(self, model: Scored, values: np.ndarray) -> np.ndarray:
        if self.label.task == "regression":
            return (values - model.labels) ** 2
        return (values != model.labels).astype(np.float64)

    def _values(self, column: Codes, classes: tuple[str, ...]) -> np.ndarray:
        """Returns the number or the id of the class that a baseline predicts, float64 [rows]; NaN if it is unknown."""
        known = [self._value(value, classes) for value in column.values]
        return np.array([np.nan if value is None else value for value in (*known, None)], np.float64)[column.codes]

    def _value(self, value: SliceValue, classes: tuple[str, ...]) -> float | None:
        if self.label.task == "regression":
            return float(value)
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        if self.label.task == "binary" and self.label.classes is None:
            return binary_class(text, self.label.positive)
        token = as_token(text)
        return float(classes.index(token)) if token in classes else None


def baselines_of(label: Label) -> ForecastBaselines | None:
    """Returns the baselines of a forecast; None for any other label, and for one of several classes per row."""
    if label.shifted is None or not label.shifted.baselines:
        return None
    return ForecastBaselines(label, label.shifted.baselines)
