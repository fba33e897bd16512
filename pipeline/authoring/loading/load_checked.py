"""A pipeline file as the verbs of the command line take it: without errors, its warnings printed."""

from pathlib import Path

from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.printing import say


def load_checked(file: Path, *, runs_here: bool = True) -> Loaded:
    """Returns a pipeline file without errors; its warnings go to standard error.

    Args:
        file: the pipeline file.
        runs_here: whether the pipeline is to run on this machine; if not, data that is not here is only doubtful.

    Raises:
        ConfigError: With every problem of the file.
    """
    from fullpass.pipeline.authoring.checks.check import require

    loaded = load(file)
    for problem in require(loaded, runs_here=runs_here):
        say(problem.located(file), err=True)
    return loaded
