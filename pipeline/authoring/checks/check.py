"""Checks rules across sections of a pipeline file. Each rule is one named function; modules group them by subject.

A check takes the loaded file and yields findings. It imports neither TensorFlow nor Beam and runs no user code.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fullpass.pipeline.authoring.checks import (
    data_rules,
    evaluation_rules,
    feature_rules,
    join_rules,
    label_rules,
    run_rules,
    source_rules,
)
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, load, overview_facts
from fullpass.pipeline.authoring.loading.problems import ConfigError, Problem, in_file_order
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.printing import print_text

Check = Callable[[Loaded], Iterator[Finding]]

_SUBJECTS = (source_rules, join_rules, data_rules, feature_rules, label_rules, evaluation_rules, run_rules)
CHECKS: tuple[Check, ...] = tuple(
    rule for subject in _SUBJECTS for name, rule in vars(subject).items() if name.startswith("check_")
)
"""Every function `check_*` of the modules."""
_LOCAL_DATA_CHECKS: tuple[Check, ...] = (
    source_rules.check_source,
    source_rules.check_credentials,
    join_rules.check_tables,
    join_rules.check_complete_tables,
)
# These rules check this machine. Only the machine that runs the pipeline pushes models and sends notifications.
_LOCAL_RUN_CHECKS: tuple[Check, ...] = (
    run_rules.check_served_folder,
    run_rules.check_notify,
    run_rules.check_mlflow,
)


def check(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns all errors and warnings across sections, in file order.

    Args:
        runs_here: Whether the pipeline will run on this machine. If not, data that this machine lacks is a warning, and
            so is what only a file has that still arrives.
    """
    problems = []
    for rule in CHECKS if runs_here else [rule for rule in CHECKS if rule not in _LOCAL_RUN_CHECKS]:
        found = [finding.problem(loaded) for finding in rule(loaded)]
        if not runs_here and rule in _LOCAL_DATA_CHECKS:
            found = [replace(problem, severity="warning") for problem in found]
        problems += found
    wrong = any(problem.severity == "error" for problem in problems)
    if wrong and not runs_here and loaded.reads_data and (arriving := source_rules.still_arrives(loaded)):
        problems = [*check(replace(loaded, reads_data=False), runs_here=False), arriving.problem(loaded)]
    return in_file_order(problems)


def require(loaded: Loaded, *, runs_here: bool = True) -> tuple[Problem, ...]:
    """Returns the warnings of a file that has no errors.

    Example:
        >>> require(load("examples/taxi/pipeline.yaml"))
        ()

    Raises:
        ConfigError: A check found an error; the error holds the warnings too.
    """
    problems = check(loaded, runs_here=runs_here)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(loaded.file, problems)
    return problems


def load_checked(file: Path, *, runs_here: bool = True, span: str | None = None) -> Loaded:
    """Returns a pipeline file without errors; its warnings are printed to standard error.

    Args:
        span: The span or spans whose data is checked, as `--span` names them; None: the newest window.

    Raises:
        ConfigError: The file has errors; `problems` holds all problems of the file.
    """
    loaded = replace(load(file), span=span)
    for problem in require(loaded, runs_here=runs_here):
        print_text(problem.located(file), err=True)
    return loaded


def overview(config: PipelineConfig, window: Sequence[str] = ()) -> str:
    """Returns the summary that `fullpass check` prints."""
    title, facts = overview_facts(config)
    named = [*facts, *(("window", line) for line in window)]
    return "\n".join([title, *(f"  {name:8}  {value}" for name, value in named), "No errors."])
