"""Checks of the section `evaluation:`."""

from collections.abc import Iterator

from fullpass.base.errors import UserError, did_you_mean
from fullpass.components.evaluation.config import Bounds, SlicedBounds
from fullpass.components.evaluation.metrics import METRICS, OF_QUANTILES
from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.loss_config import levels_of


def check_metrics(loaded: Loaded) -> Iterator[Finding]:
    """Every metric is known, and fits the task."""
    evaluation = loaded.config.evaluation
    named: list[tuple[Keys, str]] = [
        (("evaluation", "metrics", i), name) for i, name in enumerate(evaluation.metrics)
    ] + [(("evaluation", "thresholds", name), name) for name in evaluation.thresholds]
    for keys, name in named:
        message = _metric_problem(name, loaded.config.label.task) or _quantile_problem(name, loaded)
        if message is not None:
            yield Finding(keys, message)


def check_thresholds(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds bound a metric on its bad side."""
    for name, threshold in loaded.config.evaluation.thresholds.items():
        yield from bound_problems(("evaluation", "thresholds", name), name, threshold)


def bound_problems(keys: Keys, name: str, bounds: Bounds) -> Iterator[Finding]:
    """Yields the problems of a metric's bounds at the path `keys`, including its bounds on slices."""
    if isinstance(bounds, SlicedBounds) and bounds.slices is not None:
        yield from bound_problems((*keys, "slices"), name, bounds.slices)
    better = METRICS[name].higher_is_better if name in METRICS else True
    if better is False and bounds.min is not None:
        yield Finding(
            (*keys, "min"),
            f"less is better for {name}, so a lower bound would bless bad models only. "
            f"Write {name}: {{max: {bounds.min:g}}}.",
        )
    if better is None and bounds.not_worse_than is not None:
        yield Finding(
            (*keys, "not_worse_than"),
            f"{name} is best at a value in between, so neither smaller nor larger is worse. "
            f"Write bounds, such as {name}: {{min: 0.9, max: 1.1}}.",
        )


def check_slice_bounds(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds on slices need at least one slice in `evaluation.slices`."""
    evaluation = loaded.config.evaluation
    if evaluation.slices:
        return
    for name, threshold in evaluation.thresholds.items():
        named: list[tuple[Keys, SlicedBounds | None]] = [((), threshold), (("newest_span",), threshold.newest_span)]
        for below, bounds in named:
            if bounds is not None and bounds.slices is not None:
                yield Finding(
                    ("evaluation", "thresholds", name, *below, "slices"),
                    "evaluation.slices is empty, so the threshold applies to no slice. Name columns, such as "
                    "slices: [[company]] under evaluation, or remove it.",
                )


def check_slices(loaded: Loaded) -> Iterator[Finding]:
    """Slices consist of raw columns with one value per row."""
    config = loaded.config
    several = _columns_of_several(loaded)
    for i, columns in enumerate(config.evaluation.slices):
        keys: Keys = ("evaluation", "slices", i)
        if not columns:
            yield Finding(keys, "an empty slice; all rows together are always measured. Remove it.")
        if len(set(columns)) < len(columns):
            yield Finding(keys, f"every column must be given once. Received: {', '.join(columns)}.")
        if columns in config.evaluation.slices[:i]:
            yield Finding(keys, "this slice is already given above. Remove one.")
        for j, column in enumerate(columns):
            if column in config.data.derive:
                yield Finding((*keys, j), f"{column} is a derived column; slices are made of raw columns.")
            elif column in several:
                yield Finding((*keys, j), f"{column} holds several values; slices need one value per row.")


def _metric_problem(name: str, task: Task) -> str | None:
    fitting = ", ".join(known for known, metric in METRICS.items() if task in metric.tasks)
    if name not in METRICS:
        return f"unknown metric.{did_you_mean(name, METRICS)} Accepted for task {task}: {fitting}."
    if task not in METRICS[name].tasks:
        return f"{name} is for {' and '.join(METRICS[name].tasks)}, the label's task is {task}. Accepted: {fitting}."
    return None


def _quantile_problem(name: str, loaded: Loaded) -> str | None:
    levels = levels_of(loaded.config.training.loss)
    if name not in OF_QUANTILES or len(levels) > 1 or (levels and name == "pinball"):
        return None
    return (
        f"{name} is for models of quantiles. Set training.loss: {{kind: quantile, levels: [0.1, 0.5, 0.9]}}, "
        "or remove it."
    )


def _columns_of_several(loaded: Loaded) -> set[str]:
    try:
        columns = raw_columns(loaded.config.preprocessing_config)
    except UserError:
        return set()
    return {name for name, column in columns.items() if not column.is_single}
