"""The command `fullpass watch`, and `fullpass bless`, which asks it whether a model is worse than the served one."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from fullpass.base.errors import UsageError
from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.readers.crashes import continue_in_fork
from fullpass.pipeline import options
from fullpass.pipeline.authoring.checks.check import load_checked
from fullpass.pipeline.printing import console, print_data, print_text
from fullpass.pipeline.root.layout import pipeline_root
from fullpass.pipeline.startup import large_imports, noise_to, without_keras


def watch(
    file: options.File = options.USUAL,
    at: Annotated[
        str | None,
        Option(metavar="TIME", help="Watch as of this time, UTC: 2026-01-21 or 2026-01-21T06:00.", show_default="now"),
    ] = None,
    challenger: Annotated[
        str,
        Option(metavar="RUN|VERSION", help="Score the same requests with this model, and compare it.", show_default=""),
    ] = "",
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Watch the served model by its request log: inputs, answers, and metrics once labels are known."""
    continue_in_fork()
    without_keras()
    loaded = load_checked(file, runs_here=False)
    with noise_to(Path(os.devnull)), large_imports():
        from fullpass.pipeline.watching import record, shown
        from fullpass.pipeline.watching.watch import watch as watch_model

        report = watch_model(loaded, root=root, at=moment_of(at), challenger=challenger)
    if as_json:
        print_data(to_json_text(record.record_of(report), indent=2))
    else:
        console().print(shown.shown(report))
    raise typer.Exit(record.act(loaded, report, root=root))


def moment_of(text: str | None) -> datetime:
    """Returns the time that a text gives, by default now, with a time zone."""
    if text is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f'--at "{text}" is no time. Give it as 2026-01-21 or 2026-01-21T06:00, in UTC.') from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def bless(
    file: options.File = options.USUAL,
    model: Annotated[
        str | None, Option(help="Number at the end of the model's folder; by default the newest that was refused.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Bless and push it although the Evaluator refused it.")] = False,
    why: Annotated[str, Option(help="The reason to override the thresholds; it is recorded.")] = "",
    root: options.Root = None,
) -> None:
    """Push a model that was not blessed, and record who did so, why and when."""
    with noise_to(Path(os.devnull)), large_imports():
        from fullpass.pipeline.watching.bless_refused import bless_refused

    loaded = load_checked(file, runs_here=False)
    print_text(bless_refused(loaded, pipeline_root(loaded, root), model=model, force=force, why=why))
