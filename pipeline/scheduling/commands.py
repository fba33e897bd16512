"""The commands `fullpass backfill` and `fullpass schedule run`, `trigger` and `export`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from fullpass.pipeline import options
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import print_data, print_text
from fullpass.pipeline.scheduling.backfill import backfill as fill

_Form = Literal["cron", "systemd", "kubernetes"]


def register(app: typer.Typer, schedule: typer.Typer) -> None:
    """Adds the command `fullpass backfill`, and the subcommands of `fullpass schedule`."""
    app.command()(backfill)
    for verb in (run, trigger, export):
        schedule.command()(verb)


def run(
    file: options.NeededFile,
    root: options.RunRoot = None,
    once: Annotated[
        bool, Option("--once", help="Handle what is due now and exit, for use with another scheduler.")
    ] = False,
    skipped_ok: Annotated[
        bool, Option("--skipped-ok", help="With --once: exit with 0 if there was nothing to train.")
    ] = False,
) -> None:
    """Run the pipeline on this machine by its schedule, one run at a time, until stopped."""
    from fullpass.pipeline.scheduling import local_scheduler

    loaded = local_scheduler.load_to_schedule(file)

    if once:
        code = local_scheduler.run_once(loaded, root=root)
        sys.stdout.flush()
        raise typer.Exit(ExitCode.DONE if skipped_ok and code == ExitCode.NOTHING_TO_TRAIN else code)
    if skipped_ok:
        raise typer.BadParameter("--skipped-ok goes with --once.")
    local_scheduler.run(loaded, root=root)


def trigger(
    file: options.NeededFile,
    root: options.RunRoot = None,
    span: Annotated[
        str | None, Option(metavar="SPAN", help="The newest span to train on.", show_default="latest")
    ] = None,
) -> None:
    """Request a run from the running scheduler, ahead of all waiting runs."""
    loaded = load(file)
    from fullpass.pipeline.scheduling.local_scheduler import request_run

    print_text(request_run(loaded, root=root, span=span))


def export(
    file: options.NeededFile,
    form: Annotated[
        _Form,
        Option(
            "--as",
            help="The scheduler to export for.",
            show_default=False,
            **options.one_of("scheduler", _Form),
        ),
    ],
    image: Annotated[str | None, Option(help="Image of the CronJob, which contains Fullpass.")] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder to write into.", show_default="standard output")
    ] = None,
) -> None:
    """Write a crontab line, a systemd unit and timer, or a Kubernetes CronJob for the schedule."""
    from fullpass.pipeline.scheduling.export import scheduler_files as files_of
    from fullpass.pipeline.scheduling.export import write_files

    files = files_of(load(file), form, image=image)
    if output is not None:
        for path in write_files(files, output):
            print_text(path)
        return
    for name, text in files.items():
        print_data(f"# {name}\n{text}" if len(files) > 1 else text, nl=False)


def backfill(
    file: options.NeededFile,
    spans: Annotated[str, Argument(metavar="A:B", help="The first span and the last, as dates or numbers.")],
    last_only: Annotated[
        bool, Option("--last-only", help="Ingest all spans, but train only on the window of the last one.")
    ] = False,
    root: options.RunRoot = None,
) -> None:
    """Train a model for each span of a range. Completed steps are not repeated."""
    loaded = load_checked(file, span=spans)
    raise typer.Exit(fill(loaded, spans, last_only=last_only, root=root, say=print_text))
