"""`fullpass run`: runs a pipeline on this machine, from a YAML file to a pushed model."""

import shutil
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from rich.console import Console

from fullpass.base.processes import stop_signals
from fullpass.base.user_modules import use_modules_of
from fullpass.components.evaluation.judge.verdict import read_verdict
from fullpass.components.serving_check import tensorflow_process
from fullpass.pipeline import printing
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.config import Event
from fullpass.pipeline.printing import report_errors
from fullpass.pipeline.record import gather_facts
from fullpass.pipeline.record.events import RunResult, new_run_id
from fullpass.pipeline.record.facts import RunFacts, write_facts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.notifications import notify, payload_of
from fullpass.pipeline.record.provenance import begun, tell_nodes
from fullpass.pipeline.record.summary import print_summary
from fullpass.pipeline.root import locks
from fullpass.pipeline.root.check import check_model_folder, check_root, claim_root
from fullpass.pipeline.root.layout import RootLayout, pipeline_root, served_folder
from fullpass.pipeline.running.execution.artifact_checksums import discard_damaged
from fullpass.pipeline.running.execution.display import display
from fullpass.pipeline.running.execution.records import outputs_of_node
from fullpass.pipeline.running.execution.unchanged_run import find_unchanged, inputs_of, repeat, write_state
from fullpass.pipeline.running.request import DEFAULTS, RunRequest, node_names
from fullpass.pipeline.running.run_window import run_window
from fullpass.pipeline.running.tracking.track import track, tracked_run
from fullpass.pipeline.startup import import_for_nodes, import_frameworks, large_imports, noise_to


def run(loaded: Loaded, request: RunRequest = DEFAULTS, *, console: Console | None = None) -> int:
    """Runs the pipeline, and prints its progress and its summary.

    After its nodes have ended, the run is recorded and its receivers are notified, even if parts of it cannot be read,
    printed or written.

    Returns:
        The exit code, see `ExitCode`.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: The pipeline cannot be built or another run holds the root.
    """
    console = console or printing.console()
    root = pipeline_root(loaded, request.root)
    check_model_folder(root, "the root (root:, --root)")
    check_model_folder(served_folder(loaded), "the folder of pushed models (push.to)")
    if loaded.config.nodes is None:  # the names of the user's nodes are known when the pipeline is built
        request.check_nodes(node_names(loaded.config))
    claim_root(root, loaded.config.name)
    use_modules_of(loaded.folder)

    say = partial(_say, console)
    with ExitStack() as until_notified:
        # The lock is held from here on, because a run depends on the artifacts of earlier runs.
        with locks.run_lock(root, wait=request.wait, tell=say), tensorflow_process.ended_after():
            check_root(root)
            ended = _execute(loaded, root, request, console)
            # A finished run is recorded and notifies. From here on, a signal ends only the wait between two attempts.
            stop = until_notified.enter_context(stop_signals())
            facts = _summarize_and_print(loaded, root, ended, console)
            with report_errors(f"{RootLayout(root).history}: the run could not be recorded"):
                RunHistory(root).record(facts)
            with report_errors("The state of the run could not be written"):
                write_state(root, ended.inputs, ended.result)
            if request.summary is not None:
                with report_errors(f"{request.summary} could not be written"):
                    shutil.copyfile(RootLayout(root).run_file(facts.run_id), request.summary)
        # The lock is released before notifications, so slow receivers do not block the next run.
        if _is_told(facts, request):
            notify(loaded.config.notify, payload_of(facts), folder=loaded.folder, say=say, wait=stop.wait)
            if loaded.config.mlflow is not None:
                with report_errors("The run could not be recorded in MLflow"):
                    track(tracked_run(facts, loaded.config), loaded.config.mlflow.timeout, say=say)
    return facts.exit_code or 0


def _is_told(facts: RunFacts, request: RunRequest) -> bool:
    """Returns whether receivers are told: not of an interrupted run, nor of a part that ended well before a verdict."""
    return facts.outcome in get_args(Event) and (facts.trained or request.whole or facts.outcome == "failure")


@dataclass(frozen=True)
class _EndedRun:
    """A run whose nodes have ended.

    Attributes:
        begun: What was known when it started.
        inputs: The digest of its inputs (execution/unchanged_run.py).
    """

    begun: RunFacts
    result: RunResult
    log: Path
    inputs: str


def _say(console: Console, line: str) -> None:
    with report_errors("A line could not be printed"):
        console.print(line, soft_wrap=True, highlight=False)


def _execute(loaded: Loaded, root: Path, request: RunRequest, console: Console) -> _EndedRun:
    """Runs the nodes; if nothing has changed since a successful run of all nodes, takes its results."""
    layout, name = RootLayout(root), loaded.config.name
    window = run_window(loaded, root, request.span, gate=request.gate)
    run_id = new_run_id()
    logs = layout.run_logs(run_id)
    log = logs / "start.log"
    _say(console, f"Starting ... (logs: {logs})")
    for line in window.lines():
        _say(console, f"Window: {line}")
    started = time.monotonic()
    with noise_to(log):
        facts = begun(loaded, window, run_id, logs)
        inputs = inputs_of(loaded, root, window)
        unchanged = find_unchanged(root, inputs) if request.whole and not request.fresh else None
    if unchanged is not None:
        with display(console, events=request.events) as listener:
            seconds = time.monotonic() - started
            result = repeat(unchanged, root, name, run_id, listener, seconds)
        return _EndedRun(facts, result, log, inputs)
    _say(console, "Loading TensorFlow, TFX and Beam ...")
    with noise_to(log), large_imports():
        import_frameworks(after_tensorflow=tensorflow_process.prepare)
        # TensorFlow, TFX and Beam take seconds; a run of which nothing has changed needs none of them.
        from fullpass.pipeline.running.build import build
        from fullpass.pipeline.running.execution import runner
        from fullpass.pipeline.running.execution.metadata_store import record_run

        damaged = discard_damaged(root)
        pipeline = build(loaded, root=root, cache=not request.fresh, window=window)
        tell_nodes(facts, layout.run_file(run_id))
        record_run(layout.metadata, name, run_id, facts)
    for line in damaged:
        _say(console, line)
    with display(console, events=request.events) as listener:
        result = runner.run(
            pipeline, request, log_dir=logs, run_id=run_id, listener=listener, meanwhile=_import_for_nodes(log)
        )
    return _EndedRun(facts, result, log, inputs)


def _import_for_nodes(log: Path) -> Iterator[str]:
    """Yields the steps of `import_for_nodes`; the output of libraries goes to the log."""
    modules = import_for_nodes()
    while True:
        with noise_to(log), large_imports():
            module = next(modules, None)
        if module is None:
            return
        yield module


def _summarize_and_print(loaded: Loaded, root: Path, ended: _EndedRun, console: Console) -> RunFacts:
    """Gathers, prints and writes the facts of a run; failures are printed, and logged with their traceback."""
    result = ended.result

    def log(error: Exception) -> None:
        with ended.log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)

    facts = ended.begun.plus(gather_facts.of_result(result))
    with report_errors("The run has ended, but some of its outputs cannot be read", log), noise_to(ended.log):
        made = gather_facts.run_artifacts(result, lambda node: outputs_of_node(result, node))
        facts = facts.plus(gather_facts.of_metadata(result, made))
        facts = facts.plus(gather_facts.of_artifacts(result, made, loaded.config))
        facts = facts.plus(gather_facts.of_person(facts, served_folder(loaded)))
    facts = facts.plus(gather_facts.ending(facts, result))
    with report_errors("The summary could not be printed", log):
        verdict = read_verdict(facts.evaluation) if facts.evaluation else None
        print_summary(facts, verdict, console)
    with report_errors("The summary could not be written", log):
        write_facts(facts, RootLayout(root).run_file(result.run_id))
    return facts
