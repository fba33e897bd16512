"""Checks of the sections `evaluation:` and `gates:`, and of what is kept from one model to the next."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.components.evaluation.config import Bounds
from fullpass.components.evaluation.measure.metrics import (
    METRICS,
    OF_A_CLASS,
    OF_QUANTILES,
    class_of,
    level_of,
    metric_named,
)
from fullpass.components.ingest.spans.spans import has_spans
from fullpass.pipeline.authoring.checks.walks import features_and_crosses
from fullpass.pipeline.authoring.derived_columns import known_raw_columns
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.features.ids import StableIds, Vocabulary
from fullpass.preprocessing.features.label import Label, Task
from fullpass.trainer.loss_config import levels_of


def check_metrics(loaded: Loaded) -> Iterator[Finding]:
    """Every metric is known, and fits the task."""
    evaluation = loaded.config.evaluation
    named: list[tuple[Keys, str]] = [
        (("evaluation", "metrics", i), name) for i, name in enumerate(evaluation.metrics)
    ] + [(("evaluation", "thresholds", name), name) for name in evaluation.thresholds]
    for keys, name in named:
        label = loaded.config.label
        message = _metric_problem(name, label.task) or _class_problem(name, label) or _quantile_problem(name, loaded)
        if message is not None:
            yield Finding(keys, message)


def check_decision(loaded: Loaded) -> Iterator[Finding]:
    """A decision has a threshold if the label is binary."""
    task = loaded.config.label.task
    if loaded.config.evaluation.decision is not None and task != "binary":
        usual = {
            "multiclass": "a row gets its likeliest class",
            "multilabel": "every class of at least 0.5 is predicted",
            "regression": "a number is predicted",
        }
        yield Finding(
            ("evaluation", "decision"),
            f"is for binary labels; the label's task is {task}, where {usual[task]}. Remove it.",
        )


def check_reference(loaded: Loaded) -> Iterator[Finding]:
    """A label that has no simple reference is not judged by one."""
    if loaded.config.evaluation.beyond_reference and loaded.config.label.task == "multilabel":
        message = "multilabel has no simple reference to compare with. Remove it, and give thresholds."
        yield Finding(("evaluation", "beyond_reference"), message)


def check_thresholds(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds bound a metric on its bad side."""
    for keys, bounds in _bounds(loaded):
        name = str(keys[2])
        metric = metric_named(name)
        better = metric.higher_is_better if metric else True
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


def _bounds(loaded: Loaded) -> Iterator[tuple[Keys, Bounds]]:
    """Yields the bounds of every metric with their paths: those of all rows, of the newest span, and of slices."""
    for name, threshold in loaded.config.evaluation.thresholds.items():
        keys: Keys = ("evaluation", "thresholds", name)
        for path, bounds in ((keys, threshold), ((*keys, "newest_span"), threshold.newest_span)):
            if bounds is not None:
                yield path, bounds
                if bounds.slices is not None:
                    yield (*path, "slices"), bounds.slices


def check_slice_bounds(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds on slices need at least one slice in `evaluation.slices`."""
    for keys, _ in _bounds(loaded):
        if "slices" in keys[3:] and not loaded.config.evaluation.slices:
            yield Finding(
                keys,
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
    of_class = [f"{known}[CLASS]" for known, metric in OF_A_CLASS.items() if task in metric.tasks]
    of_quantile = ["coverage[LEVEL]"] if task == "regression" else []
    fitting = ", ".join([*(one for one, metric in METRICS.items() if task in metric.tasks), *of_class, *of_quantile])
    metric = metric_named(name)
    if metric is None:
        return f"unknown metric.{did_you_mean(name, METRICS)} Accepted for task {task}: {fitting}."
    if task not in metric.tasks:
        return f"{name} is for {' and '.join(metric.tasks)}, the label's task is {task}. Accepted: {fitting}."
    return None


def _class_problem(name: str, label: Label) -> str | None:
    of_class = class_of(name)
    if of_class is None or label.classes is None or of_class[1] in label.classes:
        return None
    known = ", ".join(f"{of_class[0]}[{known}]" for known in label.classes)
    return f"no class {of_class[1]!r} in label.classes.{did_you_mean(of_class[1], label.classes)} Accepted: {known}."


def _quantile_problem(name: str, loaded: Loaded) -> str | None:
    levels = levels_of(loaded.config.training.loss)
    level = level_of(name)
    if level is not None and levels:
        known = ", ".join(f"coverage[{known:g}]" for known in levels)
        return None if level in levels else f"the model has no quantile of level {level:g}. Accepted: {known}."
    if level is None and (name not in OF_QUANTILES or len(levels) > 1 or (levels and name == "pinball")):
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


def check_gate_columns(loaded: Loaded) -> Iterator[Finding]:
    """Columns with their own drift limits are raw columns that the run reads, and none is the label."""
    config = loaded.config
    columns = [name for name in known_raw_columns(config) if name not in (config.label.column, *config.label.added)]
    for name in config.gates.drift.features if columns else ():
        keys = ("gates", "drift", "features", name)
        if name == config.label.column:
            yield Finding(keys, "is the label, whose limits are in gates.label. Move them there.")
        elif name in config.data.derive:
            yield Finding(
                keys, "is a derived column; the gate compares raw columns. Name the columns it is derived from."
            )
        elif name not in columns:
            known = ", ".join(columns)
            yield Finding(keys, f"no column of that name is read.{did_you_mean(name, columns)} Accepted: {known}.")


def check_retrain(loaded: Loaded) -> Iterator[Finding]:
    """A gate with the policy retrain has a schedule that acts on it."""
    schedule = loaded.config.schedule
    if schedule is None or not schedule.drift:
        for name, check in loaded.config.gates.checks.items():
            if check.policy == "retrain":
                yield warning(
                    ("gates", name),
                    "retrain has an effect only in a schedule with `drift: true`, and there is none; a run treats it "
                    "as warn.",
                )


_NO_SPANS = "the source has no spans. Put a field such as {YYYY}-{MM}-{DD} in data.source.path"


def check_stable_ids(loaded: Loaded) -> Iterator[Finding]:
    """Stable ids belong to learned vocabularies, and `keep_spans` needs a source with spans."""
    config = loaded.config
    preprocessing = config.preprocessing_config
    if config.stable_ids and config.preprocessing is not None:
        yield Finding(("stable_ids",), "has no effect: `preprocessing` replaces the transforms of all features.")
    elif config.stable_ids and not preprocessing.has_stable_ids:
        yield warning(("stable_ids",), "has no effect: no feature learns a vocabulary.")
    if not has_spans(config.data):
        for keys, said in _stable_ids(loaded):
            if isinstance(said, StableIds) and said.keep_spans is not None:
                yield Finding((*keys, "keep_spans"), f"{_NO_SPANS}, or give keep_models.")


def check_warm_start(loaded: Loaded) -> Iterator[Finding]:
    """The export of a warm start exists; a warm start combined with `tuning` is a warning."""
    training = loaded.config.training
    if training.begins_from_folder and not is_address(training.warm_start):
        folder = Path(loaded.resolve(training.warm_start))
        if not (folder / "saved_model.pb").exists():
            yield Finding(
                ("training", "warm_start"),
                f"no exported model in {folder}. Accepted: none, blessed, or a model's folder, such as "
                "serving/1760000000.",
            )
    if training.warm_start != "none" and loaded.config.tuning is not None:
        yield warning(
            ("training", "warm_start"),
            "trials of `tuning` start from scratch; their best values may not suit a warm start.",
        )


def check_newest_span(loaded: Loaded) -> Iterator[Finding]:
    """Thresholds on the newest span need a source with spans."""
    for keys, _ in _bounds(loaded):
        if keys[3:] == ("newest_span",) and not has_spans(loaded.config.data):
            yield Finding(keys, f"{_NO_SPANS}, or remove it.")


def _stable_ids(loaded: Loaded) -> Iterator[tuple[Keys, object]]:
    config = loaded.config
    yield ("stable_ids",), config.stable_ids
    for keys, holder in features_and_crosses(loaded):
        vocabulary = getattr(holder, "vocabulary", None)
        if isinstance(vocabulary, Vocabulary):
            yield (*keys, "vocabulary", "stable_ids"), vocabulary.stable_ids
