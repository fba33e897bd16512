"""The verbs of `fullpass` that concern Kubeflow."""

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from pipeline.loading.load import Loaded


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
    from pipeline.execution.noise import noise_to

    environment = load_environment(env)
    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from kubeflow.compile import compile_package
        from kubeflow.package import write

        compiled = compile_package(loaded, environment)
    for problem in compiled.warnings:
        typer.echo(problem.located(env), err=True)
    write(compiled.package, output)
    tasks = compiled.package.pipeline["root"]["dag"]["tasks"]
    typer.echo(f"{output}: {len(tasks)} tasks for Kubeflow Pipelines {environment.config.kubeflow}")
    for sentence in compiled.stand_ins:
        typer.echo(f"  {sentence}")
