"""`fullpass init`: proposes the model, its training, and the thresholds and slices of the evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fullpass.pipeline.authoring.init.propose_label import ChosenLabel
from fullpass.pipeline.authoring.init.propose_split import ratios_of
from fullpass.pipeline.authoring.init.select_columns import SelectedColumns
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.source_profile import SourceProfile
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import SMALL_NETWORK, auto_network

_BLEND_FROM = 200
"""Fewer rows do not tell which of several models is better (docs/training.md)."""
_BLEND_UP_TO = 200_000
"""Up to this number of rows, a network is tried beside trees, whose training time grows more slowly with the rows."""
_OF_TREES = {"number", "category", "boolean", "date"}
_OF_BLEND = _OF_TREES | {"text", "categories"}
"""Kinds of columns of which `auto` grows trees; of more rows than it is for, only those of `_OF_TREES`."""
_MOST_SLICES = 2
"""Columns by which metrics are sliced; each adds a table to the report."""
_SLICE_VALUES = 12
"""Values of such a column, as months have."""
_SLICE_SHARE = 0.05
"""Share of the rows of its second value, so that two slices at least are judged."""
_MANY_ORDERS = 4.0
"""Powers of ten of a label from which on its logarithm is learned."""
_BASELINE_AUC = 0.5
"""AUC of any constant guess."""
_LARGE_CLASS = 0.5
"""Share of the largest of several classes above which a proper score judges: few can be right more often than it."""
_LINEAR: Mapping[Task, dict[str, Any]] = {"binary": {"kind": "linear", "l2": 0.0001}, "multiclass": {"kind": "linear"}}
"""Task -> the linear model of texts; rows of tf-idf, of several classes, need no further limit of their weights."""
_SURELY = {"beyond_chance": 0.95}
_NOT_WORSE = {"not_worse_than": "blessed", "confidence": 0.95}


@rule("linear model for texts")
def _linear_for_texts(profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns) -> dict[str, Any] | None:
    """Returns the linear model if texts are the only features of a classification.

    Of two classes, `auto` is better where it is not too much work; of many, trees take a hundred times as long.
    """
    of_texts = {candidate.column.kind for candidate in selection.features} == {"text"}
    blended = chosen.guess.task == "binary" and profile.sample.seen >= _BLEND_FROM and not _has_many_rows(profile)
    return _LINEAR.get(chosen.guess.task) if of_texts and not blended else None


def propose_model(
    profile: SourceProfile,
    chosen: ChosenLabel,
    selection: SelectedColumns,
    sequences: Sequence[YamlLine],
    loss: tuple[str, str] | None = None,
) -> list[YamlLine]:
    """Returns the line `model`, followed by `training` if the model or its features need it.

    Args:
        loss: The loss that a search found best, and its gain; None if none was searched.
    """
    linear = None if sequences else _linear_for_texts(profile, chosen, selection)
    training: dict[str, Any] = {}
    why: list[str] = []
    if linear is not None:
        training, why = {"learning_rate": 0.01 if "l2" in linear else 0.02}, ["large, for a linear model"]
    if not {"image", "text"}.isdisjoint(candidate.column.kind for candidate in selection.features):
        training, why = training | {"time": "15m"}, [*why, "its longest time; the best epoch so far is kept"]
    if loss is not None and loss[0] != "auto":
        training |= {"loss": loss[0]}
        why.append(loss[1])
    elif (
        loss is None
        and chosen.guess.task == "regression"
        and (orders := _orders_of_magnitude(chosen.target.y)) >= _MANY_ORDERS
    ):
        training |= {"loss": "log_normal"}
        why.append(f"the label is above 0 and spans {orders:.0f} orders of magnitude: squared, few rows would decide")
    model = _model_of(profile, chosen, selection, sequences, linear)
    return [model, *([YamlLine("training", training, "; ".join(why))] if training else [])]


@rule("label of many orders of magnitude", otherwise=0.0)
def _orders_of_magnitude(labels: np.ndarray) -> float:
    """Returns how many powers of ten all but 2 in 1,000 labels span; 0 if a label is 0 or below."""
    known = labels[~np.isnan(labels)]
    if not len(known) or known.min() <= 0:
        return 0.0
    low, high = np.quantile(known, [0.001, 0.999])
    return float(np.log10(high / low))


def _model_of(
    profile: SourceProfile,
    chosen: ChosenLabel,
    selection: SelectedColumns,
    sequences: Sequence[YamlLine],
    linear: dict[str, Any] | None,
) -> YamlLine:
    rows, kinds = profile.sample.seen, {candidate.column.kind for candidate in selection.features}
    if "image" in kinds:
        return YamlLine("model", {"kind": "mlp", "hidden": [64]}, "layers above the network of the image")
    if linear is not None:
        return YamlLine("model", linear, "one weight per word and class: texts alone need no more")
    many = _has_many_rows(profile)
    if rows >= _BLEND_FROM and not sequences and chosen.guess.task != "multilabel":
        if many and kinds <= _OF_TREES:
            why = "boosted trees: all features are single numbers and categories"
            return YamlLine("model", {"kind": "trees"}, why)
        if not many and kinds <= _OF_BLEND:
            why = "boosted trees, a network and a linear model, blended if that is better; or write one of their kinds"
            return YamlLine("model", {"kind": "auto"}, why)
    ratios = ratios_of(profile)
    if auto_network(rows * ratios["train"] // sum(ratios.values())) == SMALL_NETWORK:
        model = SMALL_NETWORK.model_dump(mode="json", exclude_unset=True)
        return YamlLine("model", model, f"small, for {rows:,} rows")
    return YamlLine("model", {"kind": "wide_deep"}, "linear in ids and crosses, beside a network of all features")


def _has_many_rows(profile: SourceProfile) -> bool:
    return (profile.sample.total or profile.sample.seen) > _BLEND_UP_TO


def propose_evaluation(profile: SourceProfile, chosen: ChosenLabel, selection: SelectedColumns) -> YamlLine:
    slices = [[name] for name in _slices(profile, selection)]
    metric, bound, span, why = _push_threshold(chosen)
    bounds = {**bound, **_SURELY, **_NOT_WORSE, "tolerance": _tolerance(profile, chosen, span)}
    why += "; and no worse than the last blessed model, beyond chance and what training anew changes"
    return YamlLine("evaluation", {**({"slices": slices} if slices else {}), "thresholds": {metric: bounds}}, why)


def _tolerance(profile: SourceProfile, chosen: ChosenLabel, span: float) -> float:
    """Returns by how much training anew moves a metric: about half its standard error on the eval rows.

    Equal models that learned from other rows differ by more than the rows that judge them explain (docs/evaluation.md).

    Args:
        span: How far a perfect model is from the best constant guess. Divided by the root of the number of rows, it is
            about the standard error of a metric of a model between them; for an AUC, of rows that count like as many of
            two equal classes.
    """
    ratios, (rows, y) = ratios_of(profile), (profile.sample.total or profile.sample.seen, chosen.target.y)
    share = np.nanmean(y) if chosen.guess.task == "binary" else 0.5
    judged = rows * ratios["eval"] / sum(ratios.values()) * 4 * share * (1 - share)
    return float(f"{span / (2 * max(judged, 1.0) ** 0.5):.1g}")


@rule("slices", otherwise=[])
def _slices(profile: SourceProfile, selection: SelectedColumns) -> list[str]:
    """Returns the raw columns to slice metrics by: those with a few common values."""
    found = []
    for candidate in selection.features:
        values = candidate.column.values
        is_raw = profile.column(candidate.column.name) is not None
        if candidate.column.kind in ("category", "boolean") and is_raw:
            if 2 <= values.distinct <= _SLICE_VALUES and values.counts[1] >= _SLICE_SHARE * values.rows:
                found.append((values.distinct, candidate.column.name))
    return [name for _, name in sorted(found)[:_MOST_SLICES]]


def _push_threshold(chosen: ChosenLabel) -> tuple[str, dict[str, float], float, str]:
    """Returns metric, bound, its distance from a perfect model, and the reason.

    The model must beat the best constant guess beyond chance.
    """
    y = chosen.target.y[~np.isnan(chosen.target.y)]
    task = chosen.guess.task
    if task in ("binary", "multilabel"):
        return "auc", {"min": _BASELINE_AUC}, 1 - _BASELINE_AUC, "the result of any constant guess"
    if task == "multiclass":
        shares = np.unique(y, return_counts=True)[1] / len(y)
        if shares.max() > _LARGE_CLASS:
            entropy = float(-(shares * np.log(shares)).sum())
            why = "the result of predicting the shares of the classes; accuracy says little about one large class"
            return "multiclass_log_loss", {"max": float(f"{entropy:.4g}")}, entropy, why
        why = "the result of always predicting the most common class"
        return "multiclass_accuracy", {"min": float(f"{shares.max():.4g}")}, 1 - float(shares.max()), why
    return "explained", {"min": 0}, 1.0, "share of the label's variance; always predicting the mean explains 0"
