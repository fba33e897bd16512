"""The verbs of `fullpass` that concern Kubeflow."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from pipeline.loading.load import Loaded

if TYPE_CHECKING:
    from kubeflow.compile import Compiled
    from kubeflow.environment import Environment


def compile_to(loaded: Loaded, env: Path, output: Path) -> None:
    """Writes the package of a checked config and says what is in it.

    Args:
        loaded: a file that passes `checks.require`.
        env: the environment file.
        output: where to write.

    Raises:
        UserError: The environment file has problems, or the package would not run.
    """
    from kubeflow.environment import load_environment

    environment = load_environment(env)
    compiled = compile_quietly(loaded, environment)
    from kubeflow.package import write

    write(compiled.package, output)
    typer.echo(f"{output}: {len(compiled.package.tasks)} tasks for Kubeflow Pipelines {environment.config.kubeflow}")
    for sentence in compiled.stand_ins:
        typer.echo(f"  {sentence}")


def compile_quietly(loaded: Loaded, environment: "Environment") -> "Compiled":
    """Returns the package of a checked config, without what TFX and TensorFlow print; warnings go to standard error.

    Args:
        loaded: a file that passes `checks.require`.
        environment: the environment file.

    Raises:
        UserError: See `compile_to`.
    """
    from pipeline.execution.noise import noise_to

    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from kubeflow.compile import compile_package

        compiled = compile_package(loaded, environment)
    for problem in compiled.warnings:
        typer.echo(problem.located(environment.file), err=True)
    return compiled
