"""`fullpass compile`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.load_checked import load_checked
from fullpass.pipeline.printing import say

if TYPE_CHECKING:
    from fullpass.kubeflow.compile.compile import Compiled
    from fullpass.kubeflow.environment import Environment


def compile_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)],
    env: Annotated[Path, typer.Option(help="The environment file: image, resources, secrets, volumes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The package to write.")] = Path("package.yaml"),
) -> None:
    """Compile the pipeline to a package for Kubeflow Pipelines, checked against the rules of its release."""
    loaded = load_checked(file, runs_here=False)
    from fullpass.kubeflow.environment import load_environment

    environment = load_environment(env)
    compiled = compile_quietly(loaded, environment)
    from fullpass.kubeflow.compile.package import write

    write(compiled.package, output)
    say(f"{output}: {len(compiled.package.tasks)} tasks for Kubeflow Pipelines {environment.config.kubeflow}")
    for sentence in compiled.remarks:
        say(f"  {sentence}")


def compile_quietly(loaded: Loaded, environment: "Environment") -> "Compiled":
    """Returns the package of a checked config, without what TFX and TensorFlow print; warnings go to standard error.

    Args:
        loaded: a file that passes `checks.require`.
        environment: the environment file.

    Raises:
        UserError: The environment file has problems, or the package would not run.
    """
    from fullpass.pipeline.running.execution.quiet_imports import noise_to

    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from fullpass.kubeflow.compile.compile import compile_package

        compiled = compile_package(loaded, environment)
    for problem in compiled.warnings:
        say(problem.located(environment.file), err=True)
    return compiled
