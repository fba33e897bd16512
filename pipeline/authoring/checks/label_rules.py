"""Checks of the label: no feature leaks it, and it fits its task."""

from collections.abc import Iterator, Mapping, Set

from fullpass.base.errors import did_you_mean
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.joins.config import is_joined
from fullpass.pipeline.authoring.checks.walks import columns_of_features
from fullpass.pipeline.authoring.derived_columns import derived_types, parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded
from fullpass.preprocessing.columns.raw_columns import feature_columns, with_source_columns
from fullpass.preprocessing.features.history import history_of
from fullpass.preprocessing.features.label import Label, Task, binary_class

_TYPES: Mapping[Task, tuple[str, ...]] = {
    "binary": ("boolean", "number", "string"),
    "multiclass": ("string", "number"),
    "multilabel": ("string",),
    "regression": ("number",),
}


def check_label_is_no_feature(loaded: Loaded) -> Iterator[Finding]:
    """No feature reads the label, directly or through derived columns."""
    label = loaded.config.label
    if label.forecast is not None:  # the present value may be a feature; see `join_rules`
        return
    for keys, column, sources in columns_of_features(loaded):
        if column == label.name:
            yield Finding(keys, f"leaks the label: {column} is what the model learns to predict. Remove it.")
        elif label.name in sources:
            yield Finding(keys, f"leaks the label: {column} is computed from {label.name}. Remove it.")


def check_label_is_no_key(loaded: Loaded) -> Iterator[Finding]:
    """No feature reads what is found by the label: columns of a join on it, or the history of rows with its value."""
    config, data = loaded.config, loaded.config.data
    expressions, _ = parsed(data.derive)
    if config.label.forecast is not None:
        return
    inputs = with_source_columns([config.label.name], expressions) - {*expressions}
    known = {config.label.name, *(inputs if len(inputs) == 1 else ())}
    for keys, column, sources in columns_of_features(loaded):
        if leaking := sorted(_keys_behind(sources, data) & known):
            yield Finding(
                keys,
                f"leaks the label: {column} is found by {leaking[0]}, which tells the label. Remove it, or use "
                "another column as the key.",
            )


def _keys_behind(columns: Set[str], data: DataConfig) -> set[str]:
    """Returns the columns by which joins and histories find the values of columns."""
    keys, pending = set[str](), {*columns}
    while pending:
        one = pending.pop()
        join = data.joins.get(one.partition(".")[0]) if is_joined(one, data.joins) else None
        history = history_of(one, data.history)
        found = {*(join.left_columns if join else ())}
        if history is not None:
            found |= {*data.history[history].keys, data.history[history].at}
        pending |= found - keys
        keys |= found
    return keys


def check_label_cannot_be_computed(loaded: Loaded) -> Iterator[Finding]:
    """The features do not read all columns that a derived label is computed from."""
    config = loaded.config
    expressions, _ = parsed(config.data.derive)
    label_inputs = with_source_columns([config.label.name], expressions) - set(config.data.derive)
    behind = {
        name: with_source_columns(feature_columns(name, feature), expressions)
        for name, feature in config.all_features.items()
    }
    # The check above reports features that read the label itself.
    readers = {name: columns & label_inputs for name, columns in behind.items() if config.label.name not in columns}
    if config.label.forecast is not None or config.label.name not in config.data.derive or not label_inputs:
        return
    if label_inputs <= set().union(*readers.values()):
        named = [f"features.{name} reads {', '.join(sorted(columns))}" for name, columns in readers.items() if columns]
        yield Finding(
            ("label", "name"),
            f"the features leak the label: {config.label.name} is computed from {', '.join(sorted(label_inputs))}, and "
            f"the features contain all of these ({'; '.join(named)}). Remove the features that are unknown at serving "
            "time.",
        )


def check_label_type(loaded: Loaded) -> Iterator[Finding]:
    """A derived label or weight has a type that the task accepts."""
    label = loaded.config.label
    types, _ = derived_types(loaded.config)
    derived = types.get(label.name)
    if derived is not None and derived not in _TYPES[label.task]:
        accepted = " or ".join(_TYPES[label.task])
        hint = " Write task: binary." if derived == "boolean" else ""
        yield Finding(
            ("label", "task"), f"{label.task} takes a {accepted}; {label.name} is derived as a {derived}.{hint}"
        )
    elif label.task == "binary" and derived in ("boolean", "number") and label.classes is not None:
        what = "a condition, and true is positive" if derived == "boolean" else "a number; write `positive`"
        yield Finding(("label", "classes"), f"{label.name} is derived as {what}. Remove classes.")
    elif derived is not None and label.positive is not None:
        if (problem := _positive_problem(label, derived)) is not None:
            yield Finding(("label", "positive"), problem)
    if label.weight is not None and types.get(label.weight) == "string":
        yield Finding(("label", "weight"), f"takes a number; {label.weight} is derived as a string.")
    if label.weight == label.name:
        yield Finding(("label", "weight"), "is the label itself. Name the column that holds the weight of an example.")


def check_class_weights(loaded: Loaded) -> Iterator[Finding]:
    """Class weights name existing classes."""
    label = loaded.config.label
    classes = label.class_names
    if not isinstance(label.class_weights, Mapping) or classes is None:
        return
    for name in label.class_weights:
        # The values of the data may name the classes of a binary label.
        is_raw = label.task == "binary" and label.classes is None and label.name not in loaded.config.data.derive
        if name not in classes and not (is_raw and binary_class(name, label.positive) is not None):
            yield Finding(
                ("label", "class_weights", name),
                f"no such class.{did_you_mean(name, classes)} Classes: {', '.join(classes)}.",
            )


def _positive_problem(label: Label, derived: str) -> str | None:
    if derived == "boolean":
        return f"{label.name} is a condition, and true is positive. Remove it."
    if derived == "number" and isinstance(label.positive, str):
        return f"{label.name} is derived as a number. Received: text {label.positive!r}. Remove the quotes."
    if derived == "string" and not isinstance(label.positive, str):
        return f"{label.name} is derived as a string. Received: the number {label.positive}. Put it in quotes."
    return None
