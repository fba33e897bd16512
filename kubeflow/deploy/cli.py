"""`fullpass submit` and the verbs of `fullpass schedule` that concern Kubeflow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubeflow.deploy.connection import HOST, Connection, connected
from pipeline.cron import six_fields
from pipeline.loading.checked import load_checked
from preprocessing.errors import UserError

if TYPE_CHECKING:
    from kubeflow.compile import Compiled
    from kubeflow.deploy.cluster import Cluster
    from kubeflow.parts import Json
    from pipeline.loading.load import Loaded
    from pipeline.schedule.config import ScheduleConfig

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline YAML.", show_default=False)]
_Env = Annotated[Path, typer.Option(help="The environment file: image, resources, secrets, volumes.")]
_Host = Annotated[
    str | None,
    typer.Option(help="Address before /apis/v2beta1.", envvar=HOST, show_envvar=True, show_default=False),
]
_Namespace = Annotated[
    str | None, typer.Option(help="Of your profile, in a multi-user installation.", envvar="KF_PIPELINES_NAMESPACE")
]
_Forward = Annotated[
    str | None,
    typer.Option("--port-forward", metavar="NAMESPACE", help="Reach the installation there with kubectl instead."),
]
_Context = Annotated[str | None, typer.Option(help="Of the kubeconfig, with --port-forward.")]
_Account = Annotated[
    str | None, typer.Option(help="Kubernetes service account of the pods.", show_default="the installation's")
]
_Parameters = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the run, such as data_path=PATH."),
]
_Span = Annotated[
    str | None,
    typer.Option(help="As of `fullpass run`: latest, a date, a number, or A:B; or new.", show_default=False),
]
_Experiment = Annotated[str | None, typer.Option(help="Where runs are listed.", show_default="name of the pipeline")]


def register(app: typer.Typer, schedule: typer.Typer) -> None:
    """Adds the verbs to the command line.

    Args:
        app: `fullpass`.
        schedule: `fullpass schedule`, which has verbs that run here too.
    """
    app.command()(submit)
    for name, verb in (("apply", apply), ("list", list_), ("pause", pause), ("resume", resume), ("delete", delete)):
        schedule.command(name)(verb)


def submit(
    file: _File,
    env: _Env,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
    experiment: _Experiment = None,
    service_account: _Account = None,
    param: _Parameters = None,
    span: _Span = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the run.")] = True,
    timeout: Annotated[
        int | None, typer.Option(min=1, help="Seconds to wait; the run goes on.", show_default="no limit")
    ] = None,
) -> None:
    """Compile the pipeline, upload it to Kubeflow Pipelines, and run it there once."""
    loaded = load_checked(file, runs_here=False)
    compiled = _compiled(loaded, env)
    from kubeflow.deploy import submit as verb
    from kubeflow.package import to_yaml

    parameters = verb.parameters(compiled.package, [*(param or []), *_span_parameter(compiled, span)])
    settings = verb.Settings(experiment or loaded.config.name, service_account, parameters)
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        run = verb.start(cluster, compiled.package, to_yaml(compiled.package), settings)
        typer.echo(f"run {run.run_id}: {verb.link(cluster, run.run_id)}")
        if not wait:
            return
        tasks = list(compiled.package.tasks)
        try:
            run = verb.wait(cluster, run.run_id, tasks, typer.echo, timeout=timeout)
        except KeyboardInterrupt:
            raise UserError(f"no longer waiting; run {run.run_id} goes on.") from None
    typer.echo(f"run {run.run_id}: {run.state.lower()}")
    if run.state != "SUCCEEDED":
        raise UserError("\n".join(verb.failures(run)) or "Its page and the logs of its pods say why.")


def apply(
    file: _File,
    env: _Env,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
    experiment: _Experiment = None,
    service_account: _Account = None,
    param: _Parameters = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
) -> None:
    """Have Kubeflow run the pipeline by the YAML's schedule. Unchanged, it is left; changed, it is replaced."""
    loaded = load_checked(file, runs_here=False)
    asked = loaded.config.schedule
    if asked is None:
        raise UserError(f'{file}: schedule is missing. For every day at three: schedule: {{cron: "0 3 * * *"}}.')
    cron = _by_the_clock_alone(loaded, asked)
    compiled = _compiled(loaded, env)
    from kubeflow.deploy import schedule
    from kubeflow.deploy.submit import Settings, parameters
    from kubeflow.lookups import NEW, SPAN
    from kubeflow.package import to_yaml

    # The clock is no argument of runs (see schedule.py): each takes what has arrived since the last, or fails.
    spans = [f"{SPAN}={NEW}"] if SPAN in _declared(compiled) else []
    settings = Settings(
        experiment or loaded.config.name, service_account, parameters(compiled.package, [*spans, *(param or [])])
    )
    wanted = schedule.Wanted(loaded.config.name, six_fields(cron), to_yaml(compiled.package), settings)
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        planned = schedule.plan(cluster, wanted)
        for line in planned.lines(wanted):
            typer.echo(line)
        if dry_run:
            typer.echo("Nothing was changed.")
            return
        typer.echo(f"recurring run {schedule.apply(cluster, wanted, planned)}")


def _by_the_clock_alone(loaded: "Loaded", schedule: "ScheduleConfig") -> str:
    """Returns the cron line; refuses what recurring runs of Kubeflow cannot do."""
    beyond = ("new_span", "drift", "lag", "wait_for", "timeout", "on_late", "missed", "poll")
    refused = next((name for name in beyond if name in schedule.model_fields_set), None)
    if refused is not None or schedule.cron is None:
        key = refused or "cron"
        raise UserError(
            f"{loaded.file}:{loaded.line('schedule', key)}: schedule.{key}: recurring runs of Kubeflow start by the "
            "clock alone. Give cron and nothing else, at a time when the files are there."
        )
    if "timezone" in schedule.model_fields_set:
        typer.echo(
            f"schedule.timezone: Kubeflow runs by the clock of its installation (CRON_SCHEDULE_TIMEZONE, UTC unless "
            f"changed). See that it is {schedule.timezone}.",
            err=True,
        )
    return schedule.cron


def list_(
    context_: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Of this pipeline. Needed without --env.")
    ] = None,
    env: Annotated[
        Path | None, typer.Option(help="The environment file: list what Kubeflow runs by.", show_default="here")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of artifacts, metadata and logs, instead of root.")] = None,
    runs: Annotated[int, typer.Option(min=0, help="How many of the last runs to show.")] = 10,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
) -> None:
    """List the last and next runs of this machine's scheduler; with --env the schedules that Kubeflow runs by."""
    if env is None:
        given = [name for name in ("host", "namespace", "forward", "context") if _on_the_line(context_, name)]
        if given or file is None:
            what = f"{given[0]} is of a cluster: give --env too" if given else "give FILE, or --env for Kubeflow's"
            raise typer.BadParameter(f"{what}.")
        from pipeline.schedule.table import table

        typer.echo(table(load_checked(file, runs_here=False), root=root, runs=runs))
        return
    from kubeflow.deploy import schedule

    name = load_checked(file, runs_here=False).config.name if file else None
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        typer.echo(schedule.table(cluster.recurring_runs(name)))


def pause(
    file: _File,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
) -> None:
    """Have Kubeflow start no more runs by the schedule, until it is resumed."""
    from kubeflow.deploy import schedule

    name = load_checked(file, runs_here=False).config.name
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        schedule.pause(cluster, name, paused=True)
    typer.echo(f"{name}: paused")


def resume(
    file: _File,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
) -> None:
    """Have Kubeflow start runs by a paused schedule again."""
    from kubeflow.deploy import schedule

    name = load_checked(file, runs_here=False).config.name
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        schedule.pause(cluster, name, paused=False)
    typer.echo(f"{name}: runs by its schedule")


def delete(
    file: _File,
    host: _Host = None,
    namespace: _Namespace = None,
    forward: _Forward = None,
    context: _Context = None,
) -> None:
    """Delete the schedule from Kubeflow. Runs that it started remain."""
    from kubeflow.deploy import schedule

    name = load_checked(file, runs_here=False).config.name
    with _cluster(Connection(host, forward, context, namespace)) as cluster:
        schedule.delete(cluster, name)
    typer.echo(f"{name}: its schedule is deleted")


def _on_the_line(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _compiled(loaded: "Loaded", env: Path) -> "Compiled":
    from kubeflow.cli import compile_quietly
    from kubeflow.environment import load_environment

    return compile_quietly(loaded, load_environment(env))


def _declared(compiled: "Compiled") -> "Json":
    return compiled.package.pipeline["root"].get("inputDefinitions", {}).get("parameters", {})


def _span_parameter(compiled: "Compiled", span: str | None) -> list[str]:
    from kubeflow.lookups import SPAN

    if span is not None and SPAN not in _declared(compiled):
        raise UserError(f"--span {span}: data.source has no spans. Say in its path where they are (docs/spans.md).")
    return [] if span is None else [f"{SPAN}={span}"]


@contextmanager
def _cluster(connection: Connection) -> Iterator["Cluster"]:
    from kubeflow.deploy.cluster import Cluster

    with connected(connection) as client:
        yield Cluster(client, connection.namespace)
