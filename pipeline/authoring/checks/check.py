"""Checks rules across sections of a pipeline file. Each rule is one named function; modules group them by subject.

A check takes the loaded file and yields findings. It imports neither TensorFlow nor Beam and runs no user code.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fullpass.pipeline.authoring.checks import (
    compute_at_rules,
    data_rules,
    evaluation_rules,
    feature_rules,
    gate_rules,
    image_rules,
    label_rules,
    retraining_rules,
    run_rules,
    schedule_rules,
    source_rules,
    tree_rules,
    tuning_rules,
)
from fullpass.pipeline.authoring.checks.findings import Finding
from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem, in_file_order
from fullpass.pipeline.printing import print_text

Check = Callable[[Loaded], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    source_rules.check_source,
    source_rules.check_credentials,
    source_rules.check_first_file,
    source_rules.check_window,
    data_rules.check_split_names,
    data_rules.check_split_by_time,
    data_rules.check_split_by_column,
    data_rules.check_stratified,
    data_rules.check_derive,
    data_rules.check_column_types,
    data_rules.check_columns_of_files,
    feature_rules.check_output_names,
    feature_rules.check_crosses,
    feature_rules.check_separators,
    feature_rules.check_vocabulary_files,
    feature_rules.check_shared_embeddings,
    feature_rules.check_shared_vocabularies,
    feature_rules.check_own_preprocessing,
    image_rules.check_pretrained,
    image_rules.check_mixup,
    compute_at_rules.check_compute_at_of_own_preprocessing,
    compute_at_rules.check_text_in_the_model,
    compute_at_rules.check_lists_in_the_model,
    label_rules.check_label_is_no_feature,
    label_rules.check_label_cannot_be_computed,
    label_rules.check_label_type,
    label_rules.check_class_weights,
    evaluation_rules.check_metrics,
    evaluation_rules.check_thresholds,
    evaluation_rules.check_slice_bounds,
    evaluation_rules.check_slices,
    gate_rules.check_gate_columns,
    gate_rules.check_retrain,
    retraining_rules.check_stable_ids,
    retraining_rules.check_warm_start,
    retraining_rules.check_newest_span,
    tuning_rules.check_tuning_paths,
    tuning_rules.check_tuning_objective,
    tuning_rules.check_tuning_workers,
    run_rules.check_functions,
    run_rules.check_code_files,
    run_rules.check_training,
    tree_rules.check_trees,
    run_rules.check_folders,
    run_rules.check_beam,
    schedule_rules.check_schedule,
    schedule_rules.check_notify,
    run_rules.check_mlflow,
)


_LOCAL_DATA_CHECKS: tuple[Check, ...] = (source_rules.check_source, source_rules.check_credentials)
# These rules check this machine. Only the machine that runs the pipeline sends notifications.
_LOCAL_RUN_CHECKS: tuple[Check, ...] = (schedule_rules.check_notify, run_rules.check_mlflow)


def check(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns all errors and warnings across sections, in file order.

    Args:
        loaded: the file.
        runs_here: whether the pipeline will run on this machine. If not, data that this machine lacks is a warning.
    """
    problems = []
    for rule in CHECKS if runs_here else [rule for rule in CHECKS if rule not in _LOCAL_RUN_CHECKS]:
        found = [finding.problem(loaded) for finding in rule(loaded)]
        if not runs_here and rule in _LOCAL_DATA_CHECKS:
            found = [replace(problem, severity="warning") for problem in found]
        problems += found
    return in_file_order(problems)


def require(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns the warnings of a file that has no errors.

    Example:
        >>> require(load("examples/taxi/pipeline.yaml"))
        ()

    Args:
        loaded: the file.
        runs_here: see `check`.

    Raises:
        ConfigError: A check found an error; the error holds the warnings too.
    """
    problems = check(loaded, runs_here=runs_here)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(loaded.file, problems)
    return problems


def load_checked(file: Path, *, runs_here: bool = True) -> Loaded:
    """Returns a pipeline file without errors; its warnings are printed to standard error.

    Args:
        file: The pipeline file.
        runs_here: See `check`.

    Raises:
        ConfigError: The file has errors; `problems` holds all problems of the file.
    """
    loaded = load(file)
    for problem in require(loaded, runs_here=runs_here):
        print_text(problem.located(file), err=True)
    return loaded
