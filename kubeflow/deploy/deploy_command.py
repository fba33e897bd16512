"""The commands of `fullpass` for Kubeflow: compile, submit, and the commands of `fullpass schedule`."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from fullpass.base.errors import UsageError, UserError
from fullpass.base.files import write_atomically
from fullpass.components.ingest.spans.spans import span_unit
from fullpass.kubeflow.compile.look_ups import schedule_time
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.deploy import recurring_runs
from fullpass.kubeflow.deploy import submit as verb
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.deploy.causes import failures
from fullpass.kubeflow.deploy.connection import HOST, client
from fullpass.kubeflow.protocol import NEW, SCHEDULED, SPAN, name_of_prediction, name_of_watch
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.options import NeededFile
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.schedule_config import six_fields
from fullpass.pipeline.startup import noise_to

if TYPE_CHECKING:
    from fullpass.kubeflow.compile.compile import Compiled
    from fullpass.kubeflow.environment import Environment

_Env = Annotated[Path, Option(help="The environment file: image, resources, secrets, volumes.")]
_Host = Annotated[
    str | None, Option(help="Address before /apis/v2beta1.", envvar=HOST, show_envvar=True, show_default=False)
]
_Namespace = Annotated[
    str | None, Option(help="Of your profile, in a multi-user installation.", envvar="KF_PIPELINES_NAMESPACE")
]
_Account = Annotated[
    str | None, Option(help="Kubernetes service account of the pods.", show_default="the installation's")
]
_Parameters = Annotated[
    list[str] | None, Option("--param", metavar="NAME=VALUE", help="A parameter of the run, such as data_path=PATH.")
]
_Predict = Annotated[
    bool, Option("--predict", help="The batch prediction of the environment file, instead of the training.")
]
_Watch = Annotated[bool, Option("--watch", help="The watch of the served model, instead of the training.")]
_Span = Annotated[
    str | None, Option(help="As in `fullpass run`: latest, a date, a number, or A:B; or new.", show_default=False)
]
_Experiment = Annotated[str | None, Option(help="Where runs are listed.", show_default="name of the pipeline")]
_Change = Literal["pause", "resume", "delete"]
_CHANGES: dict[_Change, tuple[str, str]] = {
    "pause": ("Pause the schedule in Kubeflow: no run starts until it is resumed.", "paused"),
    "resume": ("Resume a paused schedule in Kubeflow.", "its schedule is resumed"),
    "delete": (
        "Delete the schedule from Kubeflow. Runs that it started go on (from release 2.16 on).",
        "its schedule is deleted",
    ),
}
"""Command of `fullpass schedule` -> its help, and its message on success."""


def register(app: typer.Typer, schedule: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command("compile")(compile_)
    app.command()(submit)
    schedule.command("apply")(apply)
    schedule.command("list")(list_)
    for change, (summary, done) in _CHANGES.items():
        schedule.command(change)(_changes_schedule(summary, change, done))


def submit(
    file: NeededFile,
    env: _Env,
    host: _Host = None,
    namespace: _Namespace = None,
    experiment: _Experiment = None,
    service_account: _Account = None,
    param: _Parameters = None,
    span: _Span = None,
    predict: _Predict = False,
    watch: _Watch = False,
    run: Annotated[
        str | None, Option(metavar="ID", help="Wait for this run of the pipeline, instead of starting one.")
    ] = None,
    wait: Annotated[bool, Option(help="Wait for the end of the run.")] = True,
    timeout: Annotated[
        int | None, Option(min=1, help="Seconds to wait; the run continues.", show_default="no limit")
    ] = None,
    all_causes: Annotated[bool, Option("--all-causes", help="Of a failed run, tell every failure.")] = False,
) -> None:
    """Compile the pipeline, upload it to Kubeflow Pipelines, and run it there once."""
    from fullpass.kubeflow.environment import load_environment

    loaded = load_checked(file, runs_here=False)
    package = compile_quietly(loaded, load_environment(env), predict=predict, watch=watch).package
    if span is not None and SPAN not in package.parameters:
        if predict:
            raise UsageError(f"--span {span}: a prediction has a date: --param date=2026-01-02.")
        raise UsageError(f"--span {span}: data.source has no spans. Add span fields to its path (docs/spans.md).")
    spans = [] if span is None else [f"{SPAN}={span}"]
    parameters = verb.run_parameters(package, [*(param or []), *spans])
    cluster = _cluster(host, namespace)
    if run is None:
        settings = verb.RunSettings(experiment or package.name, service_account, parameters)
        run = verb.start(cluster, package, settings).run_id
        print_text(f"run {run}: {verb.link(cluster, run)}")
    elif parameters or experiment or service_account:
        raise UsageError(
            f"--run {run} was started already: --param, --span, --experiment and --service-account do not apply to it."
        )
    if wait:
        _wait_for_success(cluster, run, list(package.tasks), timeout, all_causes=all_causes)


def _wait_for_success(
    cluster: Cluster, run_id: str, tasks: list[str], timeout: float | None, *, all_causes: bool
) -> None:
    try:
        run = verb.wait(cluster, run_id, tasks, print_text, timeout=timeout)
    except KeyboardInterrupt:
        raise UserError(f"no longer waiting; run {run_id} continues.") from None
    state = verb.end_state(run)
    print_text(f"run {run_id}: {state.lower()}")
    if state == "SUCCEEDED":
        return
    if state != "FAILED":
        raise UserError(f"run {run_id} was {state.lower()}.")
    none = f"run {run_id} failed before its first task, as if Argo refused it: see kubectl describe workflow."
    first, *others = failures(cluster, run, tasks) or [none]
    if others and not all_causes:
        others = [f"{len(others)} more in this run, which may follow from it: --run {run_id} --all-causes tells them."]
    raise UserError("\n".join([first, *others]))


def apply(
    file: NeededFile,
    env: _Env,
    host: _Host = None,
    namespace: _Namespace = None,
    experiment: _Experiment = None,
    service_account: _Account = None,
    param: _Parameters = None,
    predict: _Predict = False,
    watch: _Watch = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan and change nothing.")] = False,
) -> None:
    """Create the YAML's schedule in Kubeflow. An unchanged schedule is kept; a changed one is replaced."""
    from fullpass.kubeflow.environment import load_environment

    loaded, environment = load_checked(file, runs_here=False), load_environment(env)
    by_time = schedule_time(loaded.config.schedule, span_unit(loaded.config.data), environment.config.kubeflow)
    own = _cron_of(environment, predict=predict) if predict or watch else None
    cron = own or _cron_line(loaded, by_time=bool(by_time))
    package = compile_quietly(loaded, environment, predict=predict, watch=watch).package
    # Both values make a run fail if a model was already trained on the span (see recurring_runs.py).
    spans = [f"{SPAN}={SCHEDULED if by_time else NEW}"] if SPAN in package.parameters else []
    given = verb.run_parameters(package, [*spans, *(param or [])])
    settings = verb.RunSettings(experiment or package.name, service_account, given)
    desired = recurring_runs.DesiredSchedule(package.name, six_fields(cron), to_yaml(package), settings)
    cluster = _cluster(host, namespace)
    planned = recurring_runs.plan(cluster, desired)
    for line in planned.lines(desired):
        print_text(line)
    if dry_run:
        print_text("Nothing was changed.")
        return
    print_text(f"recurring run {recurring_runs.apply(cluster, desired, planned)}")


def list_(
    context: typer.Context,
    file: Annotated[Path | None, Argument(metavar="[FILE]", help="Of this pipeline. Needed without --env.")] = None,
    env: Annotated[
        Path | None, Option(help="The environment file: list the schedules in Kubeflow.", show_default="here")
    ] = None,
    root: Annotated[Path | None, Option(help="Folder of artifacts, metadata and logs, instead of root.")] = None,
    runs: Annotated[int, Option(min=0, help="How many of the last runs to show.")] = 10,
    host: _Host = None,
    namespace: _Namespace = None,
) -> None:
    """List the last and next runs of this machine's scheduler; with --env, the schedules in Kubeflow."""
    if env is None:
        sources = {name: context.get_parameter_source(name) for name in ("host", "namespace")}
        given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if given or file is None:
            what = f"{given[0]} applies to a cluster: give --env too" if given else "give FILE, or --env for Kubeflow's"
            raise typer.BadParameter(f"{what}.")
        from fullpass.pipeline.scheduling.local_scheduler import schedule_lines

        print_text(schedule_lines(load_checked(file, runs_here=False), root=root, runs=runs))
        return
    name = load_checked(file, runs_here=False).config.name if file else None
    print_text(recurring_runs.table(_cluster(host, namespace).recurring_runs(name)))


def _changes_schedule(summary: str, change: _Change, done: str) -> Callable[..., None]:
    def command(
        file: NeededFile,
        host: _Host = None,
        namespace: _Namespace = None,
        predict: _Predict = False,
        watch: _Watch = False,
    ) -> None:
        name = load_checked(file, runs_here=False).config.name
        name = name_of_prediction(name) if predict else name_of_watch(name) if watch else name
        recurring_runs.change(_cluster(host, namespace), name, change)
        print_text(f"{name}: {done}")

    command.__doc__ = summary
    return command


def _cron_line(loaded: Loaded, *, by_time: bool) -> str:
    """Returns the cron line; rejects keys that recurring runs of Kubeflow do not support."""
    from fullpass.pipeline.scheduling.local_scheduler import schedule_of

    schedule = schedule_of(loaded)
    beyond = ("new_span", "drift", "lag", "wait_for", "timeout", "on_late", "catch_up", "poll")
    unsupported = [name for name in beyond if name in schedule.model_fields_set and not (by_time and name == "lag")]
    if unsupported or schedule.cron is None:
        key = unsupported[0] if unsupported else "cron"
        raise UserError(
            f"{loaded.file}:{loaded.line('schedule', key)}: schedule.{key}: recurring runs of Kubeflow start only at "
            "set times. Give cron, at a time when the files exist, and lag if spans are dates (from 2.17)."
        )
    if "timezone" in schedule.model_fields_set:
        print_text(
            f"schedule.timezone: Kubeflow uses the time zone of its installation (CRON_SCHEDULE_TIMEZONE, by default "
            f"UTC). Check that it is {schedule.timezone}.",
            err=True,
        )
    return schedule.cron


def _cron_of(environment: "Environment", *, predict: bool) -> str:
    """Returns the cron line of the batch prediction, or of the watch."""
    key, cron = ("predict", environment.prediction.cron) if predict else ("watch", environment.config.watch.cron)
    if cron is None:
        raise UserError(f'{environment.file}: {key}.cron is missing. For every day at five: cron: "0 5 * * *".')
    return cron


def _cluster(host: str | None, namespace: str | None) -> Cluster:
    return Cluster(client(host, os.environ), namespace)


def compile_(
    file: NeededFile,
    env: _Env,
    output: Annotated[Path, Option("--output", "-o", help="The file to write.")] = Path("package.yaml"),
    predict: _Predict = False,
    watch: _Watch = False,
) -> None:
    """Compile the pipeline to a package for Kubeflow Pipelines, checked against the rules of its release."""
    from fullpass.kubeflow.environment import load_environment

    loaded, environment = load_checked(file, runs_here=False), load_environment(env)
    compiled = compile_quietly(loaded, environment, predict=predict, watch=watch)
    write_atomically(output, to_yaml(compiled.package))
    print_text(f"{output}: {len(compiled.package.tasks)} tasks for Kubeflow Pipelines {environment.config.kubeflow}")
    for sentence in compiled.remarks:
        print_text(f"  {sentence}")


def compile_quietly(
    loaded: Loaded, environment: "Environment", *, predict: bool = False, watch: bool = False
) -> "Compiled":
    """Returns the package of a pipeline, its batch prediction or its watch, without the output of TFX and TensorFlow.

    Warnings go to standard error.
    """
    with TemporaryDirectory() as folder, noise_to(Path(folder) / "imports.log"):
        from fullpass.kubeflow.compile.compile import compile_package, compile_prediction, compile_watch

        compiler = compile_prediction if predict else compile_watch if watch else compile_package
        compiled = compiler(loaded, environment)
    for problem in compiled.warnings:
        print_text(problem.located(environment.file), err=True)
    return compiled
