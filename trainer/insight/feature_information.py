"""What the transformed values of a feature say by themselves: how often they repeat, whom they equal, what they tell.

Rows are compared by the values that the model reads, so a category below `min_count` counts as unknown here too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.models.model_inputs import ModelInput

_BINS = 20
"""Bins of a number."""
_LABEL_BINS = 10
"""Bins of the label of a regression."""
_ROWS_PER_VECTOR = 20
"""Rows per distinct vector at least: with fewer, each vector is almost a row."""
_TIES = 10
"""Repeated values without which two features of distinct numbers would be one-to-one by nature."""


def value_codes(rows: SampledRows, inputs: Sequence[ModelInput]) -> np.ndarray:
    """Returns the number of each row's value, int64 [rows]: equal values of all inputs have the same one."""
    values = _values(rows, inputs)
    if len(values) == 1 and values[0].shape[1] == 1:
        return np.unique(values[0][:, 0], return_inverse=True)[1]
    content = np.concatenate([value.view(np.uint8).reshape(len(rows), -1) for value in values], axis=1)
    return np.unique(content.view(f"V{content.shape[1]}")[:, 0], return_inverse=True)[1]


def are_equal(rows: SampledRows, one: Sequence[ModelInput], other: Sequence[ModelInput]) -> bool:
    """Returns whether two features have the same transformed values in all rows."""
    pairs = _values(rows, one), _values(rows, other)
    return len(pairs[0]) == len(pairs[1]) and all(map(np.array_equal, *pairs))


def _values(rows: SampledRows, inputs: Sequence[ModelInput]) -> list[np.ndarray]:
    """Returns the values of all inputs, [rows, width] each; -0 is 0."""
    tensors = [tensor for item in inputs for tensor in item.tensors]
    return [np.ascontiguousarray(rows.padded(tensor.name).reshape(len(rows), -1) + 0) for tensor in tensors]


def commonest_share(codes: np.ndarray) -> float:
    """Returns the share of the rows that hold the commonest value."""
    return float(np.bincount(codes).max() / len(codes))


def find_duplicates(codes: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Returns feature -> an earlier feature whose values determine its values, and are determined by them.

    Two features that both differ in nearly every row are such a pair only if they order the rows alike, or in reverse.
    Constants are no duplicates.

    Args:
        codes: Codes by feature, in the order of the values for single numbers; the first of several equal ones stays.
    """
    first: dict[bytes, str] = {}
    found: dict[str, str] = {}
    for feature, own in codes.items():
        distinct = int(own.max()) + 1
        if distinct < 2:
            continue
        if len(own) - distinct >= _TIES:
            position = np.unique(own, return_index=True)[1]
            key = np.argsort(np.argsort(position))[own]
        else:
            key = own if own[0] * 2 < distinct else distinct - 1 - own
        earlier = first.setdefault(key.astype(np.int64).tobytes(), feature)
        if earlier != feature:
            found[feature] = earlier
    return found


def mutual_information(rows: SampledRows, inputs: Sequence[ModelInput], task: Task) -> float | None:
    """Returns the mutual information of a feature and the label in nats, that of its most informative input.

    Numbers are cut into 20 quantiles, a number to predict into 10. What equally many values tell by chance is
    subtracted (the expectation over all permutations), so an id that is new in each row tells nothing. Weights are not
    used.

    Returns:
        At least 0; None if vectors, texts, lists or images hardly repeat, and for a label of several classes per row.

    Source: Vinh, Epps and Bailey, Information Theoretic Measures for Clusterings Comparison (2010).
    """
    groups = [found for item in inputs if (found := _groups(rows, item)) is not None]
    if task == "multilabel" or not groups:
        return None
    label = _bins(rows.labels, _LABEL_BINS) if task == "regression" else rows.labels.astype(np.int64)
    return max(_beyond_chance(of_rows, label) for of_rows in groups)


def _groups(rows: SampledRows, item: ModelInput) -> np.ndarray | None:
    """Returns the group of each row, int64 [rows]; None if nearly every row has a vector of its own."""
    values = rows.padded(item.keras_input.name).reshape(len(rows), -1)
    if values.shape[1] == 1:
        return values[:, 0] if item.output.kind == "ids" else _bins(values[:, 0], _BINS)
    codes = value_codes(rows, [item])
    return codes if codes.max() < len(rows) // _ROWS_PER_VECTOR else None


def _bins(values: np.ndarray, most: int) -> np.ndarray:
    """Returns the group of each number, int64 [rows]: its value, or one of `most` quantiles of as many rows each."""
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) <= most:
        return codes
    bounds = np.unique(np.quantile(values, np.linspace(0, 1, most + 1)[1:-1]))
    return np.searchsorted(bounds, values, side="right")


def _beyond_chance(groups: np.ndarray, label: np.ndarray) -> float:
    table = contingency_matrix(groups, label, sparse=True, dtype=np.int64)
    found = mutual_info_score(None, None, contingency=table)
    return max(0.0, float(found - expected_mutual_information(table, len(groups))))
