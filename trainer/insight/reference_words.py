"""Describes the simple reference in words. Nothing here imports TensorFlow."""

from collections.abc import Mapping
from typing import Any


def reference_words(reference: Mapping[str, Any] | None) -> str:
    """Returns the entry `reference` of training.json as a line; "" without one.

    Example:
        >>> found = {"kind": "ridge regression", "metric": "rmse", "reference": 3.0, "network": 2.5, "reach": 0.1,
        ...          "train_rows": 900, "eval_rows": 100, "seconds": 0.1}
        >>> reference_words(found)
        'ridge regression on 900 rows has rmse 3.0000, the model 2.5000 on the same 100: better by 0.5000 ± 0.1000'
    """
    if reference is None:
        return ""
    gain, reach = reference["network"] - reference["reference"], reference["reach"]
    better = gain < 0 if reference["metric"] == "rmse" else gain > 0
    within = "" if reach is None else f" ± {reach:.4f}"
    verdict = f"{'better' if better else 'worse'} by {abs(gain):.4f}{within}"
    if reach is not None and abs(gain) <= reach:
        verdict = f"equal within chance ({gain:+.4f}{within})"
    return (
        f"{reference['kind']} on {reference['train_rows']:,} rows has {reference['metric']} "
        f"{reference['reference']:.4f}, the model {reference['network']:.4f} on the same "
        f"{reference['eval_rows']:,}: {verdict}"
    )
