"""Records the outcome of a run in the history and builds the notification."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.spans.spans import Window
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.config import Event
from fullpass.pipeline.exit_codes import ExitCode, outcome_of
from fullpass.pipeline.printing import plain, report_errors
from fullpass.pipeline.record.events import RunResult, Status
from fullpass.pipeline.record.history import OCCASION_VARIABLE, RunHistory, RunRecord, data_digest
from fullpass.pipeline.record.notifications import Payload, event_text
from fullpass.pipeline.record.run_summary import RunSummary
from fullpass.pipeline.root.layout import RootLayout


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended. config: the digest of its settings and of the user's code at its start."""

    loaded: Loaded
    root: Path
    window: Window
    config: str
    result: RunResult
    summary: RunSummary
    exit_code: ExitCode
    whole: bool

    @property
    def span_labels(self) -> tuple[str, str] | None:
        """The labels of the oldest and the newest span of the window; None for a source without spans."""
        if not self.window.unit:
            return None
        return self.window.label(self.window.spans[0].number), self.window.label(self.window.spans[-1].number)


def record(finished: FinishedRun) -> RunRecord:
    """Records a run in the history; returns the record, even if the history cannot be written."""
    result, summary = finished.result, finished.summary
    outcome = "interrupted" if result.interrupted else outcome_of(finished.exit_code)
    window, ended = finished.window, datetime.now(UTC)
    reused = any(node.status is Status.REUSED for node in result.nodes)  # of an earlier run, by `--from`
    run = RunRecord(
        run_id=result.run_id,
        occasion=os.environ.get(OCCASION_VARIABLE, ""),
        started=(ended - timedelta(seconds=result.seconds)).isoformat(timespec="seconds"),
        ended=ended.isoformat(timespec="seconds"),
        outcome=outcome,
        exit_code=finished.exit_code,
        message=plain(_message(result, summary, outcome)),
        unit=window.unit,
        first=window.spans[0].number if window.unit else None,
        last=window.spans[-1].number if window.unit else None,
        data=data_digest(finished.loaded.config, window),
        config=finished.config,
        trained=result.ok and summary.verdict is not None and not reused,
        pushed_to=summary.pushed_to,
        measured=to_json_text(summary.measured),
    )
    with report_errors(f"{RootLayout(finished.root).history}: the run could not be recorded"):
        RunHistory(finished.root).record(run)
    return run


def payload_of(finished: FinishedRun, run: RunRecord) -> Payload | None:
    """Returns the payload of a run's notification, or None.

    There is none for an interrupted run, and for a successful partial run (`--to`) that ended before the Evaluator.
    """
    if run.outcome not in get_args(Event) or not (run.trained or finished.whole or run.outcome == "failure"):
        return None
    summary, name = finished.summary, finished.loaded.config.name
    first_span, span = finished.span_labels or (None, None)
    return Payload(
        event=run.outcome,  # type: ignore[arg-type]
        text=event_text(name, run.outcome, span, run.message),
        pipeline=name,
        file=str(finished.loaded.file.absolute()),
        exit_code=run.exit_code,
        span=span,
        first_span=first_span,
        occasion=run.occasion or None,
        run_id=run.run_id,
        seconds=round(finished.result.seconds, 3),
        metrics={m.metric: m.value for m in summary.verdict.metrics} if summary.verdict else {},
        reasons=tuple(summary.verdict.reasons) if summary.verdict else (),
        model=summary.model,
        pushed_to=summary.pushed_to if summary.newly_pushed else None,
        report=summary.report,
        logs=str(RootLayout(finished.root).run_logs(run.run_id)),
    )


def _message(result: RunResult, summary: RunSummary, outcome: str) -> str:
    if not result.ok:
        failed = next((node for node in result.nodes if node.error), None)
        return f"{failed.id}: {failed.error}" if failed else "interrupted"
    if summary.verdict is not None and not summary.verdict.blessed:
        return "; ".join(summary.verdict.reasons)
    if summary.unread:
        return "the run has ended, but its outputs cannot be read"
    if summary.newly_pushed:
        return f"pushed to {summary.pushed_to}"
    return summary.pushed.not_served if summary.pushed else ""
