"""`fullpass compile`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from fullpass.base.files import write_atomically
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.printing import print_text

if TYPE_CHECKING:
    from fullpass.kubeflow.compile.compile import Compiled
    from fullpass.kubeflow.environment import Environment


_ENGINES = ("kubeflow", "airflow")


def _engine(text: str) -> str:
    """Returns the name of the engine that runs a package.

    Raises:
        typer.BadParameter: The engine is not supported.
    """
    if text == "vertex":
        raise typer.BadParameter(
            "Vertex AI Pipelines is not supported. Its packages have no Kubernetes part, so they cannot mount the "
            "volumes and secrets that the registry, served models and credentials need. Compile for Kubeflow "
            "Pipelines on a cluster of GKE (docs/kubeflow.md), or --for airflow."
        )
    if text not in _ENGINES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(_ENGINES)}.")
    return text


def compile_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)],
    env: Annotated[
        Path | None,
        typer.Option(
            help="The environment file: image, resources, secrets, volumes; for airflow program, retries, pools.",
            show_default="none for airflow",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write.", show_default="package.yaml, NAME_dag.py"),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="|".join(_ENGINES),
            parser=_engine,
            help="Engine that runs it: Kubeflow Pipelines, or Airflow 3.",
        ),
    ] = "kubeflow",
) -> None:
    """Compile the pipeline to a package for Kubeflow Pipelines, checked against the rules of its release, or to a DAG
    file for Airflow."""
    loaded = load_checked(file, runs_here=False)
    if engine == "airflow":
        _compile_for_airflow(loaded, env, output or Path(f"{loaded.config.name}_dag.py"))
        return
    if env is None:
        raise typer.BadParameter("A package needs an environment file, `--env FILE`: see docs/kubeflow.md.")
    _compile_for_kubeflow(loaded, env, output or Path("package.yaml"))


def _compile_for_kubeflow(loaded: Loaded, env: Path, output: Path) -> None:
    from fullpass.kubeflow.environment import load_environment

    environment = load_environment(env)
    compiled = compile_quietly(loaded, environment)
    from fullpass.kubeflow.compile.package import to_yaml

    write_atomically(output, to_yaml(compiled.package))
    print_text(f"{output}: {len(compiled.package.tasks)} tasks for Kubeflow Pipelines {environment.config.kubeflow}")
    for sentence in compiled.remarks:
        print_text(f"  {sentence}")


def _compile_for_airflow(loaded: Loaded, env: Path | None, output: Path) -> None:
    from fullpass.pipeline.startup import noise_to

    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from fullpass.kubeflow.airflow.airflow_dag import airflow_dag

        dag = airflow_dag(loaded, env)
    write_atomically(output, dag.text)
    print_text(
        f"{output}: {len(dag.order)} tasks for Airflow 3, run one after the other, because only one run can use a root"
    )


def compile_quietly(loaded: Loaded, environment: "Environment") -> "Compiled":
    """Returns `compile_package` without the output of TFX and TensorFlow; warnings go to standard error."""
    from fullpass.pipeline.startup import noise_to

    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from fullpass.kubeflow.compile.compile import compile_package

        compiled = compile_package(loaded, environment)
    for problem in compiled.warnings:
        print_text(problem.located(environment.file), err=True)
    return compiled
