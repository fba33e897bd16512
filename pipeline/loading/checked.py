"""A pipeline file as the verbs of the command line take it: without errors, its warnings printed."""

from pathlib import Path

import typer

from pipeline.loading.load import Loaded, load


def load_checked(file: Path) -> Loaded:
    """Returns a pipeline file without errors; its warnings go to standard error.

    Raises:
        ConfigError: With every problem of the file.
    """
    from pipeline.checks.check import require

    loaded = load(file)
    for problem in require(loaded):
        typer.echo(problem.located(file), err=True)
    return loaded
