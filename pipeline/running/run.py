"""`fullpass run`: runs a pipeline on this machine, from a YAML file to a pushed model."""

import shutil
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fullpass.base.large_imports import large_imports
from fullpass.base.user_modules import use_modules_of
from fullpass.components.framework_imports import import_for_nodes, import_frameworks
from fullpass.components.ingest.spans.spans import Window, find_window
from fullpass.pipeline import printing
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import report_errors
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.check import check_model_folder, check_root, claim_root, seal_metadata
from fullpass.pipeline.root.layout import RootLayout, pipeline_root
from fullpass.pipeline.running.execution.events import new_run_id
from fullpass.pipeline.running.execution.quiet_imports import noise_to
from fullpass.pipeline.running.node_names import check_known, node_names
from fullpass.pipeline.running.notify.send import notify
from fullpass.pipeline.running.record_provenance import run_facts, write_run_facts
from fullpass.pipeline.running.stop_signals import stop_signals

if TYPE_CHECKING:
    from rich.console import Console

    from fullpass.pipeline.running.execution.events import RunResult
    from fullpass.pipeline.running.run_outcome import FinishedRun
    from fullpass.pipeline.running.run_summary import Summary


def run(
    loaded: Loaded,
    *,
    root: Path | None = None,
    from_node: str | None = None,
    to_node: str | None = None,
    fresh: bool = False,
    span: str | None = None,
    gate: Literal["stop", "warn"] = "stop",
    parallel: int | None = None,
    wait: bool = False,
    summary: Path | None = None,
    console: "Console | None" = None,
) -> ExitCode:
    """Runs the pipeline, and prints its progress and its summary.

    After its nodes have ended, the run is recorded and its receivers are notified, even if parts of it cannot be read,
    printed or written.

    Args:
        loaded: a checked config.
        root: folder of artifacts, metadata and logs; by default `root:` of the YAML plus the pipeline's name.
        from_node, to_node: the first and the last node to run, to run only a part of the pipeline.
        fresh: record_repeat every node, even if nothing has changed.
        span: the newest span to train on, as a date or number, or A:B; by default the newest existing span.
        gate: `warn` trains even if the data gate would stop the run, and reports the findings.
        parallel: maximum number of nodes that run at a time; by default the number of cores.
        wait: wait for another run on the same root, instead of refusing.
        summary: file for a copy of the JSON summary, which is also written beside the logs.
        console: the console to print to, from `printing.console`.

    Returns:
        The exit code, see `ExitCode`.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: The pipeline cannot be built or another run holds the root.
    """
    console = console or printing.console()
    if gate == "warn":
        softened = loaded.config.model_copy(update={"gates": loaded.config.gates.without_stops()})
        loaded = replace(loaded, config=softened)
    root = pipeline_root(loaded, root)
    check_model_folder(root, "the root (root:, --root)")
    check_model_folder(Path(loaded.resolve(loaded.config.push.to)), "the folder of pushed models (push.to)")
    nodes = node_names(loaded.config)
    check_known("from", from_node, nodes)
    check_known("to", to_node, nodes)
    claim_root(root)
    use_modules_of(loaded.folder)

    say = partial(_say, console)
    with ExitStack() as until_notified:
        # The lock is held from here on, because a run depends on the artifacts of earlier runs.
        with locks.run_lock(root, wait=wait, tell=say):
            check_root(root, reuses=from_node is not None)
            ended = _execute(
                loaded,
                root,
                span=span,
                console=console,
                from_node=from_node,
                to_node=to_node,
                fresh=fresh,
                parallel=parallel,
            )
            # A finished run is recorded and notifies. From here on, a signal ends only the wait between two attempts.
            stop = until_notified.enter_context(stop_signals())
            from fullpass.pipeline.running.execution.unchanged_run import write_state
            from fullpass.pipeline.running.run_outcome import payload_of, record
            from fullpass.pipeline.running.tracking.track import track
            from fullpass.pipeline.running.tracking.tracked_run import tracked_run

            finished = _summarize_and_print(loaded, root, ended, console, partial=bool(from_node or to_node))
            outcome = record(loaded, root, finished)
            with report_errors("The checksum of the metadata could not be written"):
                seal_metadata(root)
                write_state(root, ended.inputs, ended.result)
            if summary is not None:
                with report_errors(f"{summary} could not be written"):
                    shutil.copyfile(RootLayout(root).run_summary(finished.result.run_id), summary)
        # The lock is released before notifications, so slow receivers do not block the next run.
        payload = payload_of(loaded, root, outcome, finished)
        if payload is not None:
            notify(loaded.config.notify, payload, folder=loaded.folder, say=say, wait=stop.wait)
            if loaded.config.mlflow is not None:
                with report_errors("The run could not be recorded in MLflow"):
                    track(tracked_run(loaded, root, outcome, finished), loaded.config.mlflow.timeout, say=say)
    return finished.exit_code


@dataclass(frozen=True)
class _EndedRun:
    """A run whose nodes have ended.

    Attributes:
        window: The spans and files of its data.
        result: The results of its nodes.
        logs: The folder of its logs.
        inputs: The digest of its inputs (execution/unchanged_run.py).
    """

    window: Window
    result: "RunResult"
    logs: Path
    inputs: str

    @property
    def start_log(self) -> Path:
        """The log of everything outside the nodes."""
        return _start_log(self.logs)


def _say(console: "Console", line: str) -> None:
    with report_errors("A line could not be printed"):
        console.print(line, soft_wrap=True, highlight=False)


def _start_log(logs: Path) -> Path:
    return logs / "start.log"


def _execute(
    loaded: Loaded,
    root: Path,
    *,
    span: str | None,
    from_node: str | None,
    to_node: str | None,
    fresh: bool,
    parallel: int | None,
    console: "Console",
) -> _EndedRun:
    """Runs the nodes; if nothing has changed since a successful run of all nodes, only repeats its records."""
    layout = RootLayout(root)
    window = find_window(loaded.config.data, loaded.resolve, span, index=layout.span_index)
    run_id = new_run_id()
    logs = layout.run_logs(run_id)
    _say(console, f"Starting ... (logs: {logs})")
    for line in window.lines():
        _say(console, f"Window: {line}")
    started = time.monotonic()
    with noise_to(_start_log(logs)), large_imports():
        from fullpass.pipeline.running.execution import unchanged_run
        from fullpass.pipeline.running.execution.display import display

        facts = run_facts(loaded, run_id)
        write_run_facts(facts, logs)
        inputs = unchanged_run.inputs_of(loaded, root, window)
        whole = not fresh and from_node is None and to_node is None
        unchanged = unchanged_run.find_unchanged(root, inputs) if whole else None
    if unchanged is not None:
        with display(console) as listener:
            seconds = time.monotonic() - started
            result = unchanged_run.record_repeat(unchanged, root, loaded.config.name, run_id, facts, listener, seconds)
        return _EndedRun(window, result, logs, inputs)
    with noise_to(_start_log(logs)), large_imports():
        import_frameworks()
        from fullpass.pipeline.running.build import build
        from fullpass.pipeline.running.execution import runner
        from fullpass.pipeline.running.execution.artifact_checksums import discard_damaged
        from fullpass.pipeline.running.execution.metadata_store import record_run

        damaged = discard_damaged(root)
        pipeline = build(loaded, root=root, cache=not fresh, window=window)
        record_run(layout.metadata, loaded.config.name, run_id, facts)
    for line in damaged:
        _say(console, line)
    with display(console) as listener:
        result = runner.run(
            pipeline,
            log_dir=logs,
            run_id=run_id,
            from_node=from_node,
            to_node=to_node,
            fresh=fresh,
            listener=listener,
            parallel=parallel,
            meanwhile=_import_for_nodes(_start_log(logs)),
        )
    return _EndedRun(window, result, logs, inputs)


def _import_for_nodes(log: Path) -> Iterator[str]:
    """Yields the steps of `import_for_nodes`; the output of libraries goes to the log."""
    modules = import_for_nodes()
    while True:
        with noise_to(log), large_imports():
            module = next(modules, None)
        if module is None:
            return
        yield module


def _summarize_and_print(
    loaded: Loaded, root: Path, ended: _EndedRun, console: "Console", *, partial: bool
) -> "FinishedRun":
    """Reads, prints and writes the summary of a run; failures are printed, and logged with their traceback."""
    from fullpass.pipeline.running.execution.run_outputs import outputs
    from fullpass.pipeline.running.run_outcome import FinishedRun
    from fullpass.pipeline.running.run_summary import metadata_summary, summarize, unreadable_summary, write_summary
    from fullpass.pipeline.running.show_summary import print_summary

    result = ended.result

    def log(error: Exception) -> None:
        with ended.start_log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)

    summary = unreadable_summary(result)
    with report_errors("The run has ended, but some of its outputs cannot be read", log), noise_to(ended.start_log):
        summary = metadata_summary(result, lambda node: outputs(result, node))
        summary = summarize(result, lambda node: outputs(result, node), loaded.config)
    with report_errors("The summary could not be printed", log):
        print_summary(summary, result, console)
    with report_errors("The summary could not be written", log):
        write_summary(summary, result, RootLayout(root).run_summary(result.run_id))
    return FinishedRun(ended.window, result, summary, _exit_code(result, summary), partial)


def _exit_code(result: "RunResult", summary: "Summary") -> ExitCode:
    from fullpass.pipeline.running.run_summary import stopped_by_gate

    if stopped_by_gate(result):
        return ExitCode.GATE_STOP
    if not result.ok or summary.unread:
        return ExitCode.FAILED
    return ExitCode.DONE if summary.verdict is None or summary.verdict.blessed else ExitCode.NOT_BLESSED
