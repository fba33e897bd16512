"""Rules across sections of a pipeline file: one named function each, grouped by what they look at.

A check takes the loaded file and yields findings; it imports neither TensorFlow nor Beam and runs no code of the user.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.checks import data, evaluation, features, gates, label, places, retraining, run, schedule, source, tuning
from pipeline.checks.findings import Finding
from pipeline.loading.load import Loaded
from pipeline.loading.problems import ConfigError, Problem, in_file_order

Check = Callable[[Loaded], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    source.check_source,
    source.check_credentials,
    source.check_first_file,
    source.check_window,
    data.check_split_names,
    data.check_split_by_time,
    data.check_split_by_column,
    data.check_stratified,
    data.check_derive,
    data.check_column_types,
    data.check_columns_of_files,
    features.check_output_names,
    features.check_crosses,
    features.check_vocabulary_files,
    features.check_shared_embeddings,
    features.check_own_preprocessing,
    places.check_places_of_own_preprocessing,
    places.check_text_in_the_model,
    label.check_label_is_no_feature,
    label.check_label_cannot_be_computed,
    label.check_label_type,
    label.check_class_weights,
    evaluation.check_metrics,
    evaluation.check_thresholds,
    evaluation.check_slice_bounds,
    evaluation.check_slices,
    gates.check_gate_columns,
    gates.check_retrain,
    retraining.check_stable_ids,
    retraining.check_warm_start,
    retraining.check_newest_span,
    tuning.check_tuning_paths,
    tuning.check_tuning_objective,
    tuning.check_tuning_workers,
    run.check_functions,
    run.check_training,
    run.check_folders,
    run.check_beam,
    schedule.check_schedule,
    schedule.check_notify,
)


_OF_THIS_MACHINE: tuple[Check, ...] = (source.check_source, source.check_credentials)
# Says what this machine has, where only this machine tells receivers.
_OF_RUNS_HERE: tuple[Check, ...] = (schedule.check_notify,)


def check(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns everything that is wrong or doubtful across sections, in file order.

    Args:
        loaded: the file.
        runs_here: whether the pipeline is to run on this machine; if not, data that is not here is only doubtful.
    """
    problems = []
    for rule in CHECKS if runs_here else [rule for rule in CHECKS if rule not in _OF_RUNS_HERE]:
        found = [finding.problem(loaded) for finding in rule(loaded)]
        if not runs_here and rule in _OF_THIS_MACHINE:
            found = [replace(problem, severity="warning") for problem in found]
        problems += found
    return in_file_order(problems)


def require(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns the warnings of a file that can be run.

    Args:
        loaded: the file.
        runs_here: as of `check`.

    Raises:
        ConfigError: A check found an error; the error holds the warnings too.
    """
    problems = check(loaded, runs_here=runs_here)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(loaded.file, problems)
    return problems
