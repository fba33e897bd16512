"""`fullpass backfill`: trains a model for each span of a range, one after the other, and skips completed steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base.errors import UsageError, UserError
from fullpass.base.processes import stop_signals
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.spans import Window, find_window
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.exit_codes import WITH_VERDICT, ExitCode
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.provenance import OCCASION_VARIABLE, config_digest, data_digest
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.running.run_window import run_window
from fullpass.pipeline.scheduling import run_process

_LOOK_SECONDS = 0.2
"""Seconds between looks for a stop signal while a step runs."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """A run of a backfill.

    Attributes:
        to_node: Its last node; None for all nodes.
        done: An earlier run that completed this step, if any.
    """

    label: str
    to_node: str | None
    done: RunFacts | None = None


def backfill(
    loaded: Loaded, spans: str, *, last_only: bool = False, root: Path | None = None, say: Say = print_text
) -> int:
    """Runs the pipeline for each existing span of a range, oldest first, or only for the last of them.

    A step is completed if a run has trained on the same window of the same files with the same config and the same code
    of the user. So a stopped backfill continues when it is started again. The model of a step is not pushed if a newer
    span was already trained on: the served model stays that of the newest data.

    Args:
        spans: A:B, both included, like `--span` of a run.
        last_only: Ingest the whole range, and train only on the window of its last span.

    Returns:
        The exit code of the last step; 1 if a step failed or was stopped.

    Raises:
        SpanNotFoundError: The first or the last span does not exist.
        UserError: The source has no spans, or `spans` is no range.
    """
    if ":" not in spans:
        raise UsageError(f"{spans}: a backfill takes the first and the last span, such as 2013-01-01:2013-02-28.")
    layout = RootLayout(pipeline_root(loaded, root))
    claim_root(layout.root, loaded.config.name)
    use_modules_of(loaded.folder)
    window = find_window(loaded.config.data, loaded.resolve, spans, index=layout.span_index)
    steps = _steps(loaded, window, layout, last_only=last_only)
    open_ones = [step for step in steps if step.done is None]
    counted = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    say(f"backfill of {loaded.config.name}: {window.lines()[0]}")
    say(f"{counted}, {len(steps) - len(open_ones)} done already")
    if last_only and open_ones:
        if ingested := _run(loaded, Step(spans, "Ingest"), root, layout, f"{spans}: ingest", say):
            return ingested
    last = steps[-1].done
    code, begun = (last and last.exit_code) or ExitCode.DONE, time.monotonic()
    for count, step in enumerate(open_ones):
        number = steps.index(step) + 1
        code = _run(loaded, step, root, layout, f"[{number}/{len(steps)}] {step.label}", say)
        if code not in WITH_VERDICT:
            return code
        if left := len(open_ones) - count - 1:
            say(f"about {_minutes((time.monotonic() - begun) / (count + 1) * left)} to go")
    return code


def _steps(loaded: Loaded, window: Window, layout: RootLayout, *, last_only: bool) -> list[Step]:
    history, config = RunHistory(layout.root), config_digest(loaded)
    newest = history.newest_trained(window.unit)
    steps = []
    for span in window.spans[-1:] if last_only else window.spans:
        label = window.label(span.number)
        own = run_window(loaded, layout.root, label)
        done = history.trained_on(last=span.number, data=data_digest(loaded.config, own), config=config)
        behind = newest is not None and newest.last is not None and newest.last > span.number
        steps.append(Step(label, "Evaluator" if behind else None, done))
    return steps


def _run(loaded: Loaded, step: Step, root: Path | None, layout: RootLayout, name: str, say: Say) -> int:
    """Runs a step to completion and returns its exit code; SIGINT and SIGTERM interrupt it."""
    begun = datetime.now(UTC)
    log = layout.schedule / f"{begun:%Y%m%d-%H%M%S-%f}.log"
    occasion = f"backfill {step.label} {begun.isoformat()}"
    request = RunRequest(root=root and root.absolute(), span=step.label, to_node=step.to_node, wait=True)
    command = request.command(loaded.file.absolute())
    with stop_signals() as stop:
        try:
            running = run_process.start(
                command, folder=layout.schedule, log=log, environment={OCCASION_VARIABLE: occasion}
            )
        except BlockingIOError:
            raise UserError(
                "a run of the scheduler or of another backfill is in progress. Wait for it to end, or stop it; "
                "completed steps are not repeated."
            ) from None
        say(f"{name}: started, prints to {log}")
        while (code := running.wait(_LOOK_SECONDS)) is None:
            if stop.is_set():
                running.stop()
                say(f"{name}: interrupted. The same command continues from here.")
                return ExitCode.FAILED
    run = RunHistory(layout.root).run_for(occasion)
    outcome = run.outcome.replace("_", " ") if run else f"ended with exit code {code}, see {log}"
    pushed = ", not pushed" if run and run.trained and not run.pushed_to and not code else ""
    message = f". {run.message}" if run and run.message else ""
    say(f"{name}: {outcome}{pushed}, {_minutes((datetime.now(UTC) - begun).total_seconds())}{message}")
    return code if code >= 0 else ExitCode.FAILED


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
