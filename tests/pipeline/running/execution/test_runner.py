"""Whole runs of small pipelines: real TFX launchers, a real SQLite file, real Beam, real processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline

from fullpass.base.errors import UserError
from fullpass.pipeline.record.events import (
    Event,
    NodeEnded,
    NodeRunning,
    NodeStarted,
    RunEnded,
    RunResult,
    RunStarted,
    Status,
)
from fullpass.pipeline.running.execution import metadata_store, records, runner
from tests import REPOSITORY, warm_process
from tests.pipeline import toys
from tests.pipeline.running.execution.toy_runs import diamond, failing_once, last_blessed, rows_of, statuses

pytestmark = pytest.mark.integration
RUN_FIRST = True
LIMIT_SECONDS = 300


def sleeping(running: Path, seconds: float) -> list:
    count = toys.Count(to=2)
    return [count, toys.Sleep(source=count.outputs["data"], running=str(running), seconds=seconds)]


def printed_by(code: str) -> str:
    """Runs code in a process of its own."""
    command = [sys.executable, "-c", code]
    return warm_process.run(command, cwd=REPOSITORY, timeout=LIMIT_SECONDS, check=True).stdout


def execution_states(result: RunResult) -> list[str]:
    with metadata_store.LockedMetadata(result.metadata_path) as handle:
        executions = handle.store.get_executions()
    return [metadata_store_pb2.Execution.State.Name(e.last_known_state) for e in executions]


def test_a_pipeline_runs_in_order_and_leaves_its_outputs(run):
    result = run(*diamond())
    assert result.ok
    assert statuses(result) == dict.fromkeys(["Count", "Double", "Square", "Add"], "ok")
    assert rows_of(result, "Add") == [0, 3, 8, 15, 24]
    assert [node.outputs for node in result.nodes] == [1, 1, 1, 1]


def test_the_second_run_is_cached_and_its_outputs_can_be_looked_up(run):
    first, second = run(*diamond()), run(*diamond())
    assert set(statuses(second).values()) == {"cached"}
    assert records.outputs_of_node(second, "Add") == records.outputs_of_node(first, "Add")
    [artifact] = records.outputs_of_node(second, "Count")["data"]
    assert artifact.properties["rows"] == 5


def test_a_fresh_run_runs_all_and_the_next_takes_its_outputs(run):
    first = run(*diamond())
    fresh = run(*diamond(), fresh=True)
    third = run(*diamond())
    assert set(statuses(fresh).values()) == {"ok"}
    assert set(statuses(third).values()) == {"cached"}
    assert records.outputs_of_node(third, "Add") == records.outputs_of_node(fresh, "Add")
    assert records.outputs_of_node(third, "Add") != records.outputs_of_node(first, "Add")


def test_a_changed_parameter_runs_what_depends_on_it(run):
    run(*diamond())
    count = toys.Count(to=3)
    result = run(count, toys.Double(source=count.outputs["data"]))
    assert statuses(result) == {"Count": "ok", "Double": "ok"}
    assert rows_of(result, "Double") == [0, 2, 4]


def test_output_of_a_node_goes_to_its_log_only_and_the_handlers_of_signals_are_put_back(run, capfd):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    result = run(toys.Count(to=2))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert capfd.readouterr() == ("", "")
    log = result.node("Count").log.read_text()
    assert "counting on stdout" in log
    assert "INFO absl: Running launcher" in log


def test_independent_nodes_run_at_the_same_time(run, tmp_path: Path):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    nodes = [toys.Meet(mine=a, other=b).with_id("A"), toys.Meet(mine=b, other=a).with_id("B")]
    assert run(*nodes, parallel=2).ok


@pytest.mark.long
def test_a_node_may_import_what_the_run_itself_does_without(tmp_path: Path):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from fullpass.pipeline.startup import import_frameworks\n"
        "import_frameworks()\n"
        "from fullpass.pipeline.running.execution import runner\n"
        "from tests.pipeline import toys\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "(folder / 'metadata').mkdir()\n"
        "pipeline = toys.pipeline_of(folder, [toys.Imports(module='keras')])\n"
        "print('keras' in sys.modules, runner.run(pipeline, log_dir=folder / 'logs').ok)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["False", "True"], done.stderr


def test_steps_are_taken_in_the_process_of_the_run_while_nodes_run(run, tmp_path: Path):
    taken = []

    def steps():
        toys.wait_until(tmp_path / "node")
        yield taken.append(os.getpid())
        (tmp_path / "step").touch()
        yield taken.append(os.getpid())

    assert run(toys.Meet(mine=str(tmp_path / "node"), other=str(tmp_path / "step")), meanwhile=steps()).ok
    assert taken == [os.getpid()] * 2


def most_at_once(run, **options) -> int:
    """Returns the largest number of nodes that ran at the same time, of six that do not depend on each other."""
    going, most = set(), 0

    def listen(event: Event) -> None:
        nonlocal most
        if isinstance(event, NodeStarted):
            going.add(event.id)
        if isinstance(event, NodeEnded):
            going.discard(event.result.id)
        most = max(most, len(going))

    assert run(*[toys.Touch().with_id(f"T{i}") for i in range(6)], **options, listener=listen).ok
    return most


def test_no_more_nodes_run_at_once_than_allowed(run):
    assert most_at_once(run, parallel=3) == 3


@pytest.mark.parametrize(("cores", "nodes"), [(1, 1), (2, 3)])
def test_one_more_node_runs_at_once_than_there_are_cores_unless_there_is_one(run, monkeypatch, cores: int, nodes: int):
    monkeypatch.setattr(runner, "usable_cores", lambda: cores)
    assert most_at_once(run) == nodes


def test_many_nodes_share_the_metadata(run):
    """Twelve nodes, six at a time, on one SQLite file: none sees it locked, and every execution is recorded."""
    heads = [toys.Touch().with_id(f"T{i}") for i in range(6)]
    tails = [toys.Chain(source=head.outputs["data"]).with_id(f"C{i}") for i, head in enumerate(heads)]
    result = run(*heads, *tails, parallel=6)
    assert result.ok
    assert execution_states(result) == ["COMPLETE"] * 12
    assert not any("locked" in node.log.read_text() for node in result.nodes)


def test_a_failure_stops_what_is_not_started_and_is_explained(run, tmp_path: Path):
    count = toys.Count(to=5)
    bad = toys.RejectInBeam(source=count.outputs["data"])
    after = toys.Double(source=bad.outputs["data"])
    result = run(count, bad, after, parallel=1)
    assert not result.ok
    assert statuses(result) == {"Count": "ok", "RejectInBeam": "failed", "Double": "not run"}
    failed = result.node("RejectInBeam")
    assert failed.error == "row 3: bad date\nuse YYYY-MM-DD"
    assert "[while running 'Check rows']" in failed.log.read_text()
    assert result.node("Double").log is None


def test_what_runs_beside_a_failure_may_finish(run, tmp_path: Path):
    def listen(event: Event) -> None:
        if isinstance(event, NodeEnded) and event.result.status == Status.FAILED:
            (tmp_path / "failed").touch()

    count = toys.Count(to=2)
    slow = toys.Meet(mine=str(tmp_path / "running"), other=str(tmp_path / "failed"))
    bad = toys.FailOnce(source=count.outputs["data"], flag=str(tmp_path / "flag"))
    after_slow = toys.Double(source=slow.outputs["data"])
    result = run(slow, count, bad, after_slow, parallel=2, listener=listen)
    assert statuses(result) == {"Meet": "ok", "Count": "ok", "FailOnce": "failed", "Double": "not run"}


def test_the_next_run_takes_up_where_the_failed_one_ended(run, tmp_path: Path):
    failed = run(*failing_once(tmp_path))
    assert failed.node("FailOnce").error == "model.kind: cannot train"
    assert list((tmp_path / "artifacts" / "FailOnce" / "data").iterdir()) == [], "what was half written is removed"
    (tmp_path / "flag").touch()
    again = run(*failing_once(tmp_path))
    assert statuses(again) == {"Count": "cached", "FailOnce": "ok", "Double": "ok"}
    assert rows_of(again, "Double") == [0, 2, 4, 6, 8]
    assert sorted(execution_states(again)) == ["CACHED", "COMPLETE", "COMPLETE", "COMPLETE", "FAILED"]


def test_a_killed_node_fails_the_run_and_is_tidied_up(run, tmp_path: Path):
    def nodes() -> list:
        count = toys.Count(to=5)
        return [count, toys.Die(source=count.outputs["data"])]

    result = run(*nodes())
    assert statuses(result) == {"Count": "ok", "Die": "failed"}
    assert "SIGKILL" in result.node("Die").error
    assert execution_states(result) == ["COMPLETE", "FAILED"]
    assert list((tmp_path / "artifacts" / "Die" / "data").iterdir()) == []
    assert statuses(run(*nodes())) == {"Count": "cached", "Die": "failed"}


def test_a_resolver_that_finds_nothing_is_no_failure(run):
    count = toys.Count(to=2)
    blessed = last_blessed()
    compare = toys.Compare(source=count.outputs["data"], baseline=blessed.outputs["model"])
    result = run(count, blessed, compare)
    assert statuses(result) == {"Count": "ok", "LastBlessed": "ok", "Compare": "ok"}
    assert result.node("LastBlessed").outputs == 0


def test_a_node_that_needs_what_was_not_found_says_so(run):
    blessed = last_blessed()
    result = run(blessed, toys.Consume(model=blessed.outputs["model"]))
    assert statuses(result) == {"LastBlessed": "ok", "Consume": "failed"}
    assert result.node("Consume").error == 'It needs the input "model" from LastBlessed, which has none.'


def test_a_condition_that_is_false_skips_a_node(run):
    count = toys.Count(to=2)
    with Cond(count.outputs["data"].future()[0].custom_property("rows") > 10):
        double = toys.Double(source=count.outputs["data"])
    result = run(count, double)
    assert result.ok
    assert statuses(result) == {"Count": "ok", "Double": "skipped"}


def test_metadata_other_than_sqlite_is_refused(tmp_path: Path):
    pipeline = Pipeline(
        pipeline_name="toy",
        pipeline_root=str(tmp_path),
        components=[toys.Count(to=1)],
        metadata_connection_config=metadata.mysql_metadata_connection_config("h", 1, "d", "u", "p"),
    )
    with pytest.raises(UserError, match="SQLite.*mysql"):
        runner.run(pipeline, log_dir=tmp_path / "logs")


def test_the_listener_hears_the_run_from_start_to_end(run, tmp_path: Path):
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, NodeRunning) and event.progress:
            (tmp_path / "heard").touch()

    slow = toys.Meet(mine=str(tmp_path / "running"), other=str(tmp_path / "heard"))
    result = run(slow, toys.Double(source=slow.outputs["data"]), listener=listen)
    order = ("Meet", "Double")
    assert events[0] == RunStarted(run_id=result.run_id, pipeline_name="toy", node_ids=order, base_run_id=None)
    assert events[-1] == RunEnded(result=result)
    assert tuple(event.id for event in events if isinstance(event, NodeStarted)) == order
    assert tuple(event.result.id for event in events if isinstance(event, NodeEnded)) == order
    told = next(e.progress for e in events if isinstance(e, NodeRunning) and e.id == "Meet" and e.progress)
    assert (told.done, told.total, told.unit, told.note) == (1, 4, "rows", "waiting")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_the_run_and_the_next_is_fine(run, tmp_path: Path, number: signal.Signals):
    running = tmp_path / "running"

    def nodes(seconds: float) -> list:
        count = toys.Count(to=2)
        slow = toys.Sleep(source=count.outputs["data"], running=str(running), seconds=seconds)
        return [count, slow, toys.Double(source=slow.outputs["data"])]

    def send() -> None:
        toys.wait_until(running)
        os.kill(os.getpid(), number)

    sender = threading.Timer(0, send)
    started = time.monotonic()
    sender.start()
    result = run(*nodes(3600.0))
    sender.join(LIMIT_SECONDS)
    assert time.monotonic() - started < 600
    assert result.interrupted
    assert not result.ok
    assert statuses(result) == {"Count": "ok", "Sleep": "interrupted", "Double": "not run"}
    assert execution_states(result) == ["COMPLETE", "FAILED"]
    assert list((tmp_path / "artifacts" / "Sleep" / "data").iterdir()) == []
    assert statuses(run(*nodes(0.0))) == {"Count": "cached", "Sleep": "ok", "Double": "ok"}


def test_a_node_stopped_from_outside_is_a_failure(run, tmp_path: Path):
    running = tmp_path / "running"

    def kill_node() -> None:
        toys.wait_until(running)
        time.sleep(0.1)
        os.kill(int(running.read_text()), signal.SIGTERM)

    killer = threading.Timer(0, kill_node)
    killer.start()
    count = toys.Count(to=2)
    result = run(count, toys.Sleep(source=count.outputs["data"], running=str(running), seconds=3600.0))
    killer.join(LIMIT_SECONDS)
    assert not result.interrupted
    assert statuses(result)["Sleep"] == "failed"
    assert "signal" in result.node("Sleep").error


def test_no_node_outlives_a_listener_that_fails(run, tmp_path: Path):
    """As when the output is piped into `head`."""
    running = tmp_path / "running"

    def listen(event: Event) -> None:
        if isinstance(event, NodeRunning) and running.exists():
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(*sleeping(running, 3600.0), listener=listen)
    with pytest.raises(ProcessLookupError):
        os.kill(int(running.read_text()), 0)
    assert list((tmp_path / "artifacts" / "Sleep" / "data").iterdir()) == []
    result = run(*sleeping(running, 0.0))
    assert statuses(result) == {"Count": "cached", "Sleep": "ok"}
    assert sorted(execution_states(result)) == ["CACHED", "COMPLETE", "COMPLETE", "FAILED"]


def test_the_run_after_a_killed_run_is_fine(run, tmp_path: Path):
    """SIGKILL leaves the runner no time for anything: its nodes end, its lock is gone, its cache holds."""
    running = tmp_path / "running"

    runner_process = multiprocessing.get_context("fork").Process(target=lambda: run(*sleeping(running, 3600.0)))
    runner_process.start()
    toys.wait_until(running)
    runner_process.kill()
    runner_process.join(LIMIT_SECONDS)
    assert runner_process.exitcode == -signal.SIGKILL
    result = run(*sleeping(running, 0.0), wait=True)
    assert result.ok
    assert statuses(result) == {"Count": "cached", "Sleep": "ok"}
    assert sorted(execution_states(result)) == ["CACHED", "COMPLETE", "COMPLETE", "FAILED"]
    [left] = (tmp_path / "artifacts" / "Sleep" / "data").iterdir()
    assert toys.rows(left) == [0]


def test_a_process_in_which_tensorflow_has_computed_is_refused(tmp_path: Path):
    """A fork of such a process hangs in its first TensorFlow function; better to say so."""
    code = f"""
import pathlib
import tensorflow as tf
from tests.pipeline import toys
from fullpass.pipeline.running.execution import runner
root = pathlib.Path({str(tmp_path)!r})
tf.constant(1) + 1
try:
    runner.run(toys.pipeline_of(root, [toys.Count(to=3)]), log_dir=root / "logs")
except RuntimeError as error:
    print(error)
"""
    assert printed_by(code).startswith("TensorFlow has already computed something in this process")


def test_the_parent_starts_no_runtime(tmp_path: Path):
    """After a run with Beam in it the parent has the threads it had before, and no gRPC or TensorFlow ones."""
    code = f"""
import os, pathlib
from tests.pipeline import toys
from fullpass.pipeline.running.execution import runner
root = pathlib.Path({str(tmp_path)!r})
count = toys.Count(to=3)
pipeline = toys.pipeline_of(root, [count, toys.Square(source=count.outputs["data"])])
before = len(os.listdir("/proc/self/task"))
result = runner.run(pipeline, log_dir=root / "logs")
print(result.ok, len(os.listdir("/proc/self/task")) - before)
"""
    ok, more_threads = printed_by(code).split()
    assert ok == "True"
    assert int(more_threads) <= 0
