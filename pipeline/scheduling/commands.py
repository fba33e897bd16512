"""The commands `fullpass backfill` and `fullpass schedule run` and `trigger`."""

import sys
from typing import Annotated

import typer
from typer import Argument, Option

from fullpass.pipeline import options
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.scheduling.backfill import backfill as fill


def register(app: typer.Typer, schedule: typer.Typer) -> None:
    """Adds the command `fullpass backfill`, and the subcommands of `fullpass schedule`."""
    app.command()(backfill)
    for verb in (run, trigger):
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
