"""Maps the paths of a search to the values of the YAML that a trial changes. Nothing here imports TensorFlow."""

import json
import re
from collections.abc import Mapping
from typing import Any

from fullpass.base.errors import UserError, did_you_mean
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import NETWORKS, TREE_KEYS, TrainingConfig
from fullpass.trainer.tuning.config import Choices, Range, TuningConfig

LARGER_IS_BETTER = ("accuracy", "auc")
OBJECTIVES: Mapping[Task, tuple[str, ...]] = {
    "binary": ("log_loss", "loss", "accuracy", "auc"),
    "multiclass": ("log_loss", "loss", "accuracy"),
    "multilabel": ("log_loss", "loss", "accuracy"),
    "regression": ("rmse", "mae", "loss"),
}
"""Metrics of the validation rows by task, the default objective first."""
_FIXED = ("seed", "distribution", "checkpoint", "profile", "steps_per_execution", "wait_for_workers", "xla")
_ENCODING = re.compile(r"^features\.(?P<feature>.+)\.encoding(?P<inner>\.embedding)?$")


def path_problem(path: str, model: str, features: Mapping[str, Any]) -> str | None:
    """Returns the problem of a path of `tuning.search`, or None if it is valid."""
    feature = _ENCODING.match(path)
    if feature is not None:
        name = feature["feature"]
        if model == "trees":
            return "encodings apply to networks; trees read the ids themselves. Remove it."
        return None if name in features else f"there is no feature {name!r}.{did_you_mean(name, features)}"
    section, _, field = path.partition(".")
    known = {
        "model": [name for name in NETWORKS[model].model_fields if name not in ("kind", "function")],
        "training": [
            name
            for name in TrainingConfig.model_fields
            if name not in _FIXED and (model != "trees" or name in TREE_KEYS)
        ],
    }
    if section not in known:
        return "a path begins with model, training, or features.NAME.encoding."
    top, _, inner = field.partition(".")
    if top not in known[section]:
        hint = did_you_mean(top, known[section])
        return f"{section} has no {top!r} to search.{hint} There are: {', '.join(known[section]) or 'none'}."
    if inner and (section, top) not in (("model", "options"), ("training", "early_stopping")):
        return f"{section}.{top} has no {inner!r}."
    return None


def encode_choices(spec: Range | Choices) -> list[Any]:
    """Returns choices in a form that KerasTuner accepts: values of one simple type, else JSON texts."""
    values = list(spec.examples)
    kinds = {type(value) for value in values}
    return values if len(kinds) == 1 and kinds <= {int, float, str, bool} else [json.dumps(v) for v in values]


def decode_choice(spec: Range | Choices, value: Any) -> Any:
    """Returns the value of the YAML for a trial's hyperparameter."""
    if isinstance(spec, Range):
        return int(value) if spec.whole else float(value)
    encoded = encode_choices(spec)
    if value not in encoded:
        raise UserError(f"hyperparameter {value!r} is none of {encoded}: it belongs to another search.")
    return spec.choices[encoded.index(value)]


def best_values(hyperparameters: Mapping[str, Any], tuning: TuningConfig) -> dict[str, Any]:
    """Returns the best values that the Tuner found, by path."""
    values = hyperparameters["values"]
    return {path: decode_choice(spec, values[path]) for path, spec in tuning.search.items()}


def with_values(
    values: Mapping[str, Any], trainer: Mapping[str, Any], preprocessing: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the dumped sections of the Trainer and of the preprocessing with other values at some paths."""
    changed = json.loads(json.dumps({"trainer": trainer, "preprocessing": preprocessing}))
    for path, value in values.items():
        feature = _ENCODING.match(path)
        if feature is not None:
            holder = changed["preprocessing"]["features"][feature["feature"]]
            before = holder.get("encoding")
            kept = before if isinstance(before, dict) else {}
            holder["encoding"] = {**kept, "embedding": value} if feature["inner"] else value
            continue
        *parents, last = path.split(".")
        inner = changed["trainer"]
        for key in parents:
            inner[key] = inner.get(key) or {}
            inner = inner[key]
        inner[last] = value
    return changed["trainer"], changed["preprocessing"]
