"""What a run came to, written into the history, and as what receivers are to be told of it."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from components.ingest.spans import Window
from pipeline.execution.events import RunResult, Status
from pipeline.history import History, Run, config_digest, data_digest
from pipeline.loading.load import Loaded
from pipeline.notify.config import Event
from pipeline.notify.payload import Payload, sentence
from pipeline.schedule.process import OCCASION_VARIABLE
from pipeline.summary import Summary

EXIT_SKIPPED = 6
_OUTCOMES = {0: "success", 3: "not_blessed", 5: "gate_stop"}


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        window: the data that it took.
        result, summary: what came out.
        exit_code: of `fullpass run`.
        partial: whether `--from` or `--to` chose a part.
    """

    window: Window
    result: RunResult
    summary: Summary
    exit_code: int
    partial: bool


def record(loaded: Loaded, root: Path, ending: Ending) -> Payload | None:
    """Writes a run into the history; returns what receivers are to be told of it, or None.

    Of a part (`--to`) that ends before the Evaluator they are told only if it failed; of an interruption, nothing.

    Args:
        loaded: what was run.
        root: of the pipeline.
        ending: how.
    """
    result, summary = ending.result, ending.summary
    outcome = "interrupted" if result.interrupted else _OUTCOMES.get(ending.exit_code, "failure")
    trained = result.ok and summary.verdict is not None and not _from_elsewhere(result)
    window, ended = ending.window, datetime.now(UTC)
    run = Run(
        run_id=result.run_id,
        occasion=os.environ.get(OCCASION_VARIABLE, ""),
        started=(ended - timedelta(seconds=result.seconds)).isoformat(timespec="seconds"),
        ended=ended.isoformat(timespec="seconds"),
        outcome=outcome,
        exit_code=ending.exit_code,
        message=_message(result, summary, outcome),
        unit=window.unit,
        first=window.spans[0].number if window.unit else None,
        last=window.spans[-1].number if window.unit else None,
        data=data_digest(window),
        config=config_digest(loaded.config),
        trained=trained,
        pushed_to=summary.pushed_to,
    )
    History(root).record(run)
    told = outcome in get_args(Event) and (trained or not ending.partial or outcome == "failure")
    return _payload(loaded, root, run, ending) if told else None


def _from_elsewhere(result: RunResult) -> bool:
    """Whether the run took over what another had made of its data (`--from`)."""
    return any(node.status is Status.REUSED for node in result.nodes)


def _message(result: RunResult, summary: Summary, outcome: str) -> str:
    if not result.ok:
        failed = next((node for node in result.nodes if node.error), None)
        return f"{failed.id}: {failed.error}" if failed else "interrupted"
    if summary.verdict is not None and not summary.verdict.blessed:
        return "; ".join(summary.verdict.reasons)
    return f"pushed to {summary.pushed_to}" if summary.newly_pushed else ""


def _payload(loaded: Loaded, root: Path, run: Run, ending: Ending) -> Payload:
    window, summary = ending.window, ending.summary
    spans = [window.label(number) for number in (run.first, run.last) if number is not None]
    name = loaded.config.name
    return Payload(
        event=run.outcome,  # type: ignore[arg-type]
        text=sentence(name, run.outcome, spans[-1] if spans else None, run.message),
        pipeline=name,
        file=str(loaded.file.absolute()),
        exit_code=run.exit_code,
        span=spans[-1] if spans else None,
        first_span=spans[0] if spans else None,
        occasion=run.occasion or None,
        run_id=run.run_id,
        seconds=round(ending.result.seconds, 3),
        metrics={m.metric: m.value for m in summary.verdict.metrics} if summary.verdict else {},
        reasons=tuple(summary.verdict.reasons) if summary.verdict else (),
        model=summary.model,
        pushed_to=summary.pushed_to if summary.newly_pushed else None,
        report=summary.report,
        logs=str(root / "logs" / run.run_id),
    )
