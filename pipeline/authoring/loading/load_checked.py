"""Loads a pipeline file for the commands of the command line: raises its errors and prints its warnings."""

from pathlib import Path

from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.printing import print_text


def load_checked(file: Path, *, runs_here: bool = True) -> Loaded:
    """Returns a pipeline file without errors; its warnings are printed to standard error.

    Args:
        file: the pipeline file.
        runs_here: whether the pipeline will run on this machine. If not, data that this machine lacks is a warning.

    Raises:
        ConfigError: The file has errors; `problems` holds all problems of the file.
    """
    from fullpass.pipeline.authoring.checks.check import require

    loaded = load(file)
    for problem in require(loaded, runs_here=runs_here):
        print_text(problem.located(file), err=True)
    return loaded
