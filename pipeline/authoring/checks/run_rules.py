"""Checks of run settings other than features: user code, training, folders, Beam."""

from collections.abc import Iterator
from pathlib import Path

from fullpass.base.errors import did_you_mean
from fullpass.base.files import is_address
from fullpass.components.ingest.sources.config import ModuleSource
from fullpass.components.ingest.sources.files import nearby
from fullpass.pipeline.authoring.checks.findings import Finding, warning
from fullpass.pipeline.authoring.find_function import function_problem
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.pipeline.authoring.module_files import find_code
from fullpass.pipeline.authoring.user_code import matching_files, model_functions, transform_functions
from fullpass.pipeline.config import missing_for_mlflow
from fullpass.preprocessing.features.feature import CustomFeature, ImageFeature
from fullpass.preprocessing.features.image_feature import UserEncoder
from fullpass.trainer.config import Module
from fullpass.trainer.loss_config import losses_for

_RUNNERS = ("direct", "flink", "spark", "dataflow")
# Beam option -> the key of the YAML that sets it.
_OWN_OPTIONS = {"runner": "beam.runner", "direct_num_workers": "beam.workers", "direct_running_mode": "beam.workers"}


def check_functions(loaded: Loaded) -> Iterator[Finding]:
    """Every function named by import path exists and takes the arguments it is called with."""
    for keys, path, arguments in _functions(loaded):
        message = function_problem(path, arguments, folder=loaded.folder)
        if message is not None:
            yield Finding(keys, message)


def check_code_files(loaded: Loaded) -> Iterator[Finding]:
    """Declared files exist, and files that the user's code reads under names that are not in it are declared."""
    for place, entry in enumerate(loaded.config.code_files):
        path = loaded.resolve(entry)
        if not matching_files(path):
            yield Finding(("code_files", place), f"{entry!r} is no file.{nearby(path)} Looked for: {path}.")
    functions = transform_functions(loaded.config) + model_functions(loaded.config)
    unknown = find_code({path.partition(":")[0] for path in functions}, loaded.folder).unknown
    if unknown and not loaded.config.code_files:
        yield warning(
            ("code_files",),
            f"{', '.join(unknown)}: reads a file whose name is not in the code, so a run does not notice when the file "
            "changes. Name it here: code_files: [FILE].",
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
    remote = [
        (keys, path) for keys, path in ((("root",), config.root), (("push", "to"), config.push.to)) if is_address(path)
    ]
    for keys, path in remote:
        yield Finding(keys, f"must be a folder on this machine, which may be a mounted one. Received: {path}.")
    if remote:
        return
    root, target = (Path(loaded.resolve(path)) for path in (config.root, config.push.to))
    if target == root or root in target.parents:
        yield Finding(("push", "to"), f"lies inside root ({config.root}), whose old runs are cleaned up. Move it.")
    elif target in root.parents:
        yield Finding(("root",), f"lies inside push.to ({config.push.to}), which a model server watches. Move it.")


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
    if config.preprocessing is not None:
        yield ("preprocessing",), config.preprocessing, ("columns",)
    for name, feature in config.features.items():
        if isinstance(feature, CustomFeature):
            yield ("features", name, "function"), feature.function, ("columns",)
        elif isinstance(feature, ImageFeature) and isinstance(feature.encoder, UserEncoder):
            yield ("features", name, "encoder", "module", "function"), feature.encoder.function, ("images", "options")
