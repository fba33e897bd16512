"""Checks of how a pipeline runs: user code, training, trees, tuning, folders, Beam, schedule, notifications."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.components.ingest.sources.config import ModuleSource
from fullpass.components.ingest.sources.files import nearby
from fullpass.components.ingest.spans.span_files import path_pattern
from fullpass.components.ingest.spans.spans import span_unit
from fullpass.components.push.push import require_owner
from fullpass.pipeline.authoring.checks.walks import features_and_crosses
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.user_code import function_problem, matching_files, reads_of, user_functions
from fullpass.pipeline.config import missing_for_mlflow
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import CustomFeature, Feature, ImageFeature, TextFeature
from fullpass.preprocessing.features.image_feature import UserEncoder
from fullpass.preprocessing.features.lists import list_options
from fullpass.preprocessing.spec import length
from fullpass.trainer.config import TREE_KEYS, Module, RunFn, SeveralModels, TrainerConfig, TrainingConfig, Trees
from fullpass.trainer.loss_config import losses_for
from fullpass.trainer.tuning.search_space import OBJECTIVES, path_problem, with_values

_RUNNERS = ("direct", "flink", "spark", "dataflow")
# Beam option -> the key of the YAML that sets it.
_OWN_OPTIONS = {"runner": "beam.runner", "direct_num_workers": "beam.workers", "direct_running_mode": "beam.workers"}


def check_functions(loaded: Loaded) -> Iterator[Finding]:
    """Every function named by import path exists and takes the arguments it is called with."""
    for keys, path, arguments in _functions(loaded):
        if (message := function_problem(path, arguments, folder=loaded.folder)) is not None:
            yield Finding(keys, message)


def check_code_files(loaded: Loaded) -> Iterator[Finding]:
    """Declared files exist, and a module of the YAML that reads files has declared ones."""
    for index, entry in enumerate(loaded.config.code_files):
        path = loaded.resolve(entry)
        if not matching_files(path):
            yield Finding(("code_files", index), f"{entry!r} is no file.{nearby(path)} Looked for: {path}.")
    reads = sorted({line for function in user_functions(loaded.config) for line in reads_of(function, loaded.folder)})
    if reads and not loaded.config.code_files:
        yield warning(
            ("code_files",),
            f"{', '.join(reads)}: may read a file. A run notices changes of Python files only; name others here: "
            "code_files: [FILE].",
        )


def check_training(loaded: Loaded) -> Iterator[Finding]:
    """The loss fits the label's task, and label smoothing is used only for classes."""
    config = loaded.config
    loss, task = config.training.loss, config.label.task
    if task not in loss.tasks:
        yield Finding(("training", "loss"), f"{loss.kind} is not for {task}. Accepted: {losses_for(task)}.")
    if config.training.label_smoothing and config.label.task == "regression":
        yield Finding(("training", "label_smoothing"), "is for classes; the label's task is regression. Remove it.")


def check_folders(loaded: Loaded) -> Iterator[Finding]:
    """Root and push folder are local, and models are pushed outside the root, where nothing else writes."""
    config = loaded.config
    folders = ((("root",), config.root), (("push", "to"), config.push.to))
    for keys, path in folders:
        if path.startswith("~"):
            yield Finding(keys, f"a folder named ~, not your home directory. Write it out. Received: {path}.")
    remote = [(keys, path) for keys, path in folders if is_address(path)]
    for keys, path in remote:
        yield Finding(keys, f"must be a folder on this machine, which may be a mounted one. Received: {path}.")
    if remote:
        return
    root, target = (Path(loaded.resolve(path)) for path in (config.root, config.push.to))
    if target == root or root in target.parents:
        yield Finding(("push", "to"), f"lies inside root ({config.root}), whose old runs are cleaned up. Move it.")
    elif target in root.parents:
        yield Finding(("root",), f"lies inside push.to ({config.push.to}), which a model server watches. Move it.")


def check_served_folder(loaded: Loaded) -> Iterator[Finding]:
    """The folder that models are pushed to has none of another pipeline."""
    try:
        require_owner(Path(loaded.resolve(loaded.config.push.to)), loaded.config.name, to_push=True)
    except UserError as error:
        yield Finding(("push", "to"), str(error))


def check_beam(loaded: Loaded) -> Iterator[Finding]:
    """The runner is known, and options are written by name."""
    beam = loaded.config.beam
    if beam.runner not in _RUNNERS and not beam.runner.endswith("Runner"):
        yield Finding(
            ("beam", "runner"),
            f'unknown runner "{beam.runner}".{did_you_mean(beam.runner, _RUNNERS)} Accepted: {", ".join(_RUNNERS)}, or '
            "the name of a Beam runner, such as PortableRunner.",
        )
    if beam.workers != "auto" and beam.runner not in ("direct", "DirectRunner"):
        yield Finding(
            ("beam", "workers"),
            f"is for the direct runner. Received: runner: {beam.runner}; it has options of its own (beam.options).",
        )
    for name in beam.options:
        keys: Keys = ("beam", "options", name)
        if name.startswith("-"):
            yield Finding(keys, f"write the option without dashes: {name.lstrip('-')}.")
        elif name in _OWN_OPTIONS:
            yield Finding(keys, f"is set by {_OWN_OPTIONS[name]}. Remove it here.")
        elif "-" in name or " " in name:
            yield Finding(keys, f"Beam's options are written with underscores: {name.replace('-', '_')}.")


def check_mlflow(loaded: Loaded) -> Iterator[Finding]:
    """This machine meets the requirements for recording runs on an MLflow server."""
    missing = missing_for_mlflow() if loaded.config.mlflow is not None else None
    if missing is not None:
        yield warning(("mlflow",), missing)


def _functions(loaded: Loaded) -> Iterator[tuple[Keys, str, tuple[str, ...]]]:
    config = loaded.config
    if isinstance(config.data.source, ModuleSource):
        function = config.data.source.function
        if isinstance(function, str):
            yield ("data", "source", "function"), function, ()
        else:
            yield from ((("data", "source", "function", split), path, ()) for split, path in function.items())
    if isinstance(config.model, Module):
        yield ("model", "function"), config.model.function, ("inputs", "task", "classes", "options")
    if isinstance(config.model, RunFn):
        yield ("model", "function"), config.model.function, ("fn_args",)
    if config.preprocessing is not None:
        yield ("preprocessing",), config.preprocessing, ("columns",)
    if config.nodes is not None:
        yield ("nodes",), config.nodes, ("nodes",)
    for name, feature in config.features.items():
        if isinstance(feature, CustomFeature):
            yield ("features", name, "function"), feature.function, ("columns",)
        elif isinstance(feature, ImageFeature) and isinstance(feature.encoder, UserEncoder):
            yield ("features", name, "encoder", "module", "function"), feature.encoder.function, ("images", "options")


def check_run_fn(loaded: Loaded) -> Iterator[Finding]:
    """A `run_fn` of TFX has the `preprocessing_fn` that it reads, and no key is set that only another model obeys."""
    config = loaded.config
    if not isinstance(config.model, RunFn):
        return
    if config.preprocessing is None:
        yield Finding(
            ("preprocessing",), f"name the preprocessing_fn of TFX whose outputs {config.model.function} reads."
        )
    if config.label.task == "multilabel":
        yield Finding(("label", "task"), "multilabel is not for model: {kind: run_fn}, whose label is one value.")
    if config.training.begins_from_folder:
        message = "a folder is not for model: {kind: run_fn}. Accepted: none, or blessed, which is fn_args.base_model."
        yield Finding(("training", "warm_start"), message)
    fields = config.model_fields_set
    left_out: dict[Keys, object] = {
        ("tuning",): config.tuning,
        ("input",): "input" in fields,
        ("parity",): "parity" in fields,
        ("serving_log",): config.serving_log,
        ("label", "weight"): config.label.weight,
        ("evaluation", "decision"): config.evaluation.decision,
        **{("training", key): key != "warm_start" for key in config.training.model_fields_set},
        **{("data", "joins", name): join.serve == "lookup" for name, join in config.data.joins.items()},
    }
    for keys, given in left_out.items():
        if given:
            yield Finding(
                keys, f"is not for model: {{kind: run_fn}}, {_NOT_OF_RUN_FN.get(str(keys[0]), _OWN_TRAINING)}"
            )


_OWN_TRAINING = "which trains, weighs and exports as its module says. Remove it."
_NOT_OF_RUN_FN = {
    "tuning": "whose hyperparameters this search does not know. Remove it.",
    "parity": "whose export has no features to compare. Remove it: Parity and ServingCheck are left out.",
    "serving_log": "whose model `fullpass serve` cannot serve. Remove it.",
    "data": "whose export holds no table to look up. Use serve: given.",
}
"""First key of the YAML that has no effect with `model: {kind: run_fn}` -> the reason."""


def check_tuning_paths(loaded: Loaded) -> Iterator[Finding]:
    """Every path of the search leads to a field that accepts the values to try."""
    config = loaded.config
    for path, spec in config.tuning.search.items() if config.tuning else ():
        keys: Keys = ("tuning", "search", path)
        problem = path_problem(path, config.model.kind, config.features)
        if problem is not None:
            yield Finding(keys, problem)
            continue
        for value in spec.examples:
            if (problem := _value_problem(loaded, path, value)) is not None:
                yield Finding(keys, f"{value!r} cannot be tried: {problem}")
                break


def check_tuning_objective(loaded: Loaded) -> Iterator[Finding]:
    """The objective is a metric that training measures after every epoch for this label's task."""
    tuning, task = loaded.config.tuning, loaded.config.label.task
    if tuning is not None and tuning.objective not in (None, *OBJECTIVES[task]):
        known = OBJECTIVES[task]
        hint = did_you_mean(tuning.objective or "", known)
        yield Finding(
            ("tuning", "objective"),
            f"{tuning.objective!r} is not measured in training for {task} labels.{hint} There are: {', '.join(known)}.",
        )


def check_tuning_workers(loaded: Loaded) -> Iterator[Finding]:
    """A search runs on one machine."""
    if loaded.config.tuning is not None and loaded.config.training.distribution == "multi_worker":
        yield Finding(
            ("training", "distribution"),
            "is multi_worker, but a search (tuning) runs on one machine. Use distribution: auto, and set TF_CONFIG for "
            "the Trainer alone.",
        )


def _value_problem(loaded: Loaded, path: str, value: Any) -> str | None:
    config = loaded.config
    declared = config.preprocessing_config
    sections = config.trainer_config.model_dump(mode="json"), declared.model_dump(mode="json")
    try:
        trainer, preprocessing = with_values({path: value}, *sections)
        TrainerConfig.model_validate(trainer)
        PreprocessingConfig.model_validate(preprocessing)
    except ValidationError as error:
        said = dict.fromkeys(str(one["msg"]).removeprefix("Value error, ") for one in error.errors())
        return "; ".join(said)  # one for each form that the setting accepts
    except (KeyError, TypeError, AttributeError):
        return "the path goes through a value that has no fields."
    return None


_DATED = ("year", "month", "day", "hour")


def check_schedule(loaded: Loaded) -> Iterator[Finding]:
    """A schedule fits its source: the source has spans to wait for, and every key has an effect."""
    schedule = loaded.config.schedule
    if schedule is None:
        return
    try:
        unit = span_unit(loaded.config.data)
    except UserError:
        return  # The checks of the source report it.
    given = schedule.model_fields_set
    # A watch of the request log requests runs too.
    if schedule.cron is None and not (schedule.new_span or schedule.drift or loaded.config.serving_log):
        yield warning(("schedule",), "starts nothing by itself: it has neither cron nor new_span nor drift.")
    if schedule.drift and schedule.new_span:
        yield Finding(("schedule", "drift"), "has nothing to decide: new_span trains on every span. Keep one of them.")
    elif schedule.drift and all(check.policy != "retrain" for check in loaded.config.gates.checks.values()):
        yield Finding(
            ("schedule", "drift"),
            "no check of gates decides when to train. Give one the policy retrain, such as gates: {drift: retrain}.",
        )
    if (schedule.new_span or schedule.drift) and unit is None:
        yield Finding(
            ("schedule", "new_span" if schedule.new_span else "drift"),
            "data.source has no spans that could arrive. Put a span field in its path, such as "
            "trips/{YYYY}-{MM}-{DD}.csv, or name the column of spans (data.span), or give a cron line instead.",
        )
    if "lag" in given and (unit in (None, "number") or schedule.cron is None):
        yield Finding(("schedule", "lag"), "counts spans back from a time of cron; it needs cron, and spans by date.")
    if length(schedule.timeout) and length(schedule.timeout) < length(schedule.poll):
        yield Finding(
            ("schedule", "timeout"),
            f"({schedule.timeout}) ends before a second look, which comes after poll ({schedule.poll}).",
        )
    if schedule.wait_for is not None:
        yield from _marker_findings(loaded, schedule.wait_for)


def check_notify(loaded: Loaded) -> Iterator[Finding]:
    """Notification programs exist and environment variables are set on this machine."""
    for number, hook in enumerate(loaded.config.notify):
        if hook.command is not None and not _is_program(loaded, hook.command[0]):
            hint = _script_hint(loaded, hook.command[0])
            yield warning(("notify", number, "command"), f'"{hook.command[0]}" is no program on this machine.{hint}')
        for key, name in (("url_env", hook.url_env), ("token_env", hook.token_env)):
            if name is not None and not os.environ.get(name):
                yield warning(("notify", number, key), f"the environment variable {name} is not set here.")


def _marker_findings(loaded: Loaded, written: str) -> Iterator[Finding]:
    keys = ("schedule", "wait_for")
    unit = span_unit(loaded.config.data)
    try:
        pattern = path_pattern(written, loaded.resolve)
    except UserError as error:
        yield Finding(keys, str(error).removeprefix("data.source.path: "))
        return
    if pattern is None:
        if unit is not None:
            yield warning(keys, "names one path for all spans: once it exists, every span counts as complete.")
        return
    if unit is None:
        return
    if pattern.unit != unit and pattern.unit not in _DATED[: _DATED.index(unit) if unit in _DATED else 0]:
        yield Finding(
            keys,
            f"is per {pattern.unit}, but a span of data.source is a {unit}. Give it the same fields, or only "
            "the first of them if one marker covers several spans.",
        )


def _script_hint(loaded: Loaded, name: str) -> str:
    """Returns how to start a script that exists relative to the YAML's folder; "" if there is none."""
    if not (loaded.folder / name).is_file():
        return ""
    if "/" in name:
        return f" The file is not executable: chmod +x {name}."
    return f" A script beside this file is ./{name}, and needs chmod +x."


def _is_program(loaded: Loaded, name: str) -> bool:
    """Returns whether a program exists: on PATH, or relative to the YAML's folder if its name contains a slash."""
    return shutil.which(str(loaded.folder / name) if "/" in name else name) is not None


_INSTEAD = "Remove it, or use model: {kind: wide_deep}"
_INSTEAD_OF = {
    "learning_rate": "Set model.learning_rate.",
    "warm_start": "Trees are trained from scratch in seconds. Remove it.",
    "checkpoint": "Trees are not saved during training. Remove it.",
}
"""Key of training: that trees do not read -> what to do."""


def check_trees(loaded: Loaded) -> Iterator[Finding]:
    """Trees learn one label from numbers and categories, and the file sets no key that only networks read."""
    config = loaded.config
    if not isinstance(config.model, Trees | SeveralModels):
        return
    for name, feature in config.features.items():
        yield from _check_feature(name, feature)
    for name in config.sequences:
        yield Finding(("sequences", name), f"is a sequence, which trees cannot read. {_INSTEAD}.")
    if config.label.task == "multilabel":
        yield Finding(("label", "task"), "multilabel is not for trees. Use model: {kind: wide_deep}.")
    if config.training.loss.objective is None:
        accepted = losses_for(config.label.task, trees=True)
        yield Finding(("training", "loss"), f"{config.training.loss.kind} is not for trees. Accepted: {accepted}.")
    if isinstance(config.model, Trees):
        yield from _check_keys_of_networks(loaded)
    elif config.training.distribution == "multi_worker":
        message = "kind: auto trains on one machine. Accepted: auto, one_device, mirrored, tpu."
        yield Finding(("training", "distribution"), message)


def _check_feature(name: str, feature: Feature) -> Iterator[Finding]:
    keys = ("features", name)
    if isinstance(feature, ImageFeature):
        yield Finding(keys, f"is an image, which trees cannot read. {_INSTEAD}.")
    if isinstance(feature, TextFeature) and feature.encoder is not None:
        yield _in_order((*keys, "encoder"))
    if (options := list_options(feature)) is not None:
        if options.encoder is not None:
            yield _in_order((*keys, "list", "encoder"))
        if options.attend_to is not None:
            yield _in_order((*keys, "list", "attend_to"))
        if options.pooling == "attention":
            message = "attention is for networks. Accepted for trees: mean, sum, max, sqrt_n."
            yield Finding((*keys, "list", "pooling"), message)


def _check_keys_of_networks(loaded: Loaded) -> Iterator[Finding]:
    config, usual = loaded.config, TrainingConfig()
    for keys, holder in features_and_crosses(loaded):
        if keys[0] != "sequences" and getattr(holder, "encoding", "auto") != "auto":
            yield Finding((*keys, "encoding"), "is for networks; trees read the ids themselves. Remove it.")
    for key in TrainingConfig.model_fields:
        given = getattr(config.training, key)
        # `checkpoint: null` disables checkpoints, and trees write none while they grow.
        if key not in TREE_KEYS and given != getattr(usual, key) and (key, given) != ("checkpoint", None):
            instead = _INSTEAD_OF.get(key, "Remove it.")
            yield Finding(("training", key), f"is for networks; trees do not read it. {instead}")
    if config.training.distribution not in ("auto", "one_device"):
        yield Finding(("training", "distribution"), "trees grow on one machine. Accepted: auto, one_device.")
    if config.input.shuffle_buffer != "auto":
        message = "is for networks; trees see all rows at once, whatever their order. Remove it."
        yield Finding(("input", "shuffle_buffer"), message)


def _in_order(keys: Keys) -> Finding:
    return Finding(keys, f"reads elements in their order, which trees cannot. {_INSTEAD}.")
