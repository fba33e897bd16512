"""`fullpass run`: from a YAML file to a pushed model on this machine."""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from components.ingest.spans import find_window
from pipeline.execution import locks
from pipeline.execution.events import new_run_id
from pipeline.execution.noise import noise_to
from pipeline.loading.load import Loaded
from pipeline.notify.send import notify
from pipeline.run_facts import run_facts, tell_nodes
from pipeline.schedule.stopping import stop_signals

if TYPE_CHECKING:
    from pipeline.ending import Ending
    from pipeline.execution.events import RunResult
    from pipeline.summary import Summary

SPAN_INDEX = "span_index"
SPAN_STATISTICS = "span_statistics"
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_NOT_BLESSED = 3
EXIT_GATE = 5


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
    console: Console | None = None,
) -> int:
    """Runs the pipeline and prints how it goes and what came out.

    Args:
        loaded: a checked config.
        root: where this pipeline keeps artifacts, metadata and logs; by default `root:` of the YAML plus its name.
        from_node, to_node: run a part only.
        fresh: repeat every node, though nothing has changed.
        span: the newest span to train on, as a date or number, or A:B; by default the newest there is.
        gate: `warn` trains on data that the gate would stop at, and tells what moved all the same.
        parallel: nodes at a time; by default the number of cores.
        wait: wait for another run on the same root, instead of refusing.
        console: where to print.

    Returns:
        The exit code: 0 done, 1 a node failed, 3 the model was not blessed, 5 the data gate stopped the run.

    Raises:
        SpanNotFoundError: The span asked for is not there.
        UserError: The pipeline cannot be built or another run holds the root.
    """
    console = console or Console()
    if gate == "warn":
        softened = loaded.config.model_copy(update={"gates": loaded.config.gates.without_stops()})
        loaded = replace(loaded, config=softened)
    root = root.absolute() if root else pipeline_root(loaded)
    add_user_modules(loaded)

    def say(line: str) -> None:
        console.print(line, soft_wrap=True, highlight=False)

    with ExitStack() as until_told:
        # Held from here on: what a run does depends on what earlier ones have left.
        with locks.run_lock(root, wait=wait, tell=say):
            ending = _run(
                loaded,
                root,
                span=span,
                console=console,
                from_node=from_node,
                to_node=to_node,
                fresh=fresh,
                parallel=parallel,
            )
            from pipeline.ending import record

            # What is recorded is told of: from here on a signal ends no more than the waiting between tries.
            stop = until_told.enter_context(stop_signals())
            payload = record(loaded, root, ending)
        # Receivers may take their time; the root is free for the next run.
        if payload is not None:
            notify(loaded.config.notify, payload, folder=loaded.folder, say=say, wait=stop.wait)
    return ending.exit_code


def _run(loaded: Loaded, root: Path, *, span: str | None, fresh: bool, console: Console, **options: Any) -> "Ending":
    window = find_window(loaded.config.data, loaded.resolve, span, index=root / SPAN_INDEX)
    run_id = new_run_id()
    logs = root / "logs" / run_id
    console.print(f"Starting ... (logs: {logs})", soft_wrap=True)
    for line in window.lines():
        console.print(f"Window: {line}", soft_wrap=True, highlight=False)
    start_log = logs / "start.log"
    with noise_to(start_log):
        from pipeline.build import METADATA, build
        from pipeline.ending import Ending
        from pipeline.execution import runner
        from pipeline.execution.display import display
        from pipeline.execution.metadata_store import outputs, record_run
        from pipeline.summary import print_summary, summarize, write_summary

        pipeline = build(loaded, root=root, cache=not fresh, window=window)
        facts = run_facts(loaded, run_id)
        record_run(root / METADATA, loaded.config.name, run_id, facts)
        tell_nodes(facts, logs)
    with display(console) as listener:
        result = runner.run(
            pipeline,
            log_dir=logs,
            run_id=run_id,
            fresh=fresh,
            listener=listener,
            **options,
        )
    with noise_to(start_log):
        summary = summarize(result, lambda node: outputs(result, node), loaded.config)
    print_summary(summary, result, console)
    write_summary(summary, result, logs / "summary.json")
    partial = bool(options["from_node"] or options["to_node"])
    return Ending(window, result, summary, _exit_code(result, summary), partial)


def _exit_code(result: "RunResult", summary: "Summary") -> int:
    from pipeline.summary import stopped_by_gate

    if stopped_by_gate(result):
        return EXIT_GATE
    if not result.ok:
        return EXIT_FAILED
    return EXIT_OK if summary.verdict is None or summary.verdict.blessed else EXIT_NOT_BLESSED


def pipeline_root(loaded: Loaded) -> Path:
    """Returns the folder of the pipeline's artifacts, metadata and logs."""
    return Path(loaded.resolve(loaded.config.root)) / loaded.config.name


def add_user_modules(loaded: Loaded) -> None:
    """Makes modules beside the YAML importable, here and in every process a node starts."""
    folder = str(loaded.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
