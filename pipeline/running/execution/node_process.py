"""Runs a node in a forked process with its own log; the process and its children end together.

The parent has imported TensorFlow, Beam and all other modules of the node, but has started none of their runtimes. So a
fork takes about 15 ms, and all modules are loaded in it. The parent must have no Python threads.
"""

import contextlib
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from absl import logging as absl_logging

from fullpass.base import progress
from fullpass.base.files import write_atomically
from fullpass.base.processes import end_with_parent, flush_streams, limit_arenas
from fullpass.base.redact import redact_streams
from fullpass.components.ingest.readers.crashes import NOTES_VARIABLE, ended_text, noted_files
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.record.events import NodeResult, Status
from fullpass.pipeline.running.execution import failure

GRACE_SECONDS = 10.0
"""Seconds between the request to stop a node and its kill."""
_POLL_SECONDS = 0.01
"""Seconds between looks for a node that has ended: nothing against a node, which takes a second or more."""
_WATCH_SECONDS = 0.5
"""Seconds between looks for the parent, which the kernel's signal has announced before."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM)
_NO_GPUS = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
_OUTCOME_SUFFIX = ".outcome.json"
_PROGRESS_SUFFIX = ".progress.json"
_LINE_PER_COLUMN = "tensor_representation_util"
"""A module of tfx_bsl that logs a line for each column whenever a schema is read: 1,055 lines of the Trainer for 79
columns, each of which would be searched for secrets."""


@dataclass(frozen=True, kw_only=True)
class NodeOutcome:
    """The result that the process of a node writes before it exits."""

    status: Status
    outputs: int = 0
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeProcess:
    """The process of a started node, and the files through which it reports."""

    id: str
    pid: int
    log: Path
    scratch: Path
    started: float

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self.started

    def read_progress(self) -> progress.Progress | None:
        """Returns the last progress report of the node."""
        return progress.read(self.scratch / f"{self.id}{_PROGRESS_SUFFIX}")

    def read_losses(self) -> progress.Losses:
        """Returns the losses of the models that the node trains, as far as it has noted them."""
        return progress.read_losses(self.scratch / f"{self.id}{_PROGRESS_SUFFIX}")


def start(
    node_id: str, work: Callable[[], NodeOutcome], *, log: Path, scratch: Path, gpus: bool = False
) -> NodeProcess:
    """Forks a process that calls `work` and exits.

    Args:
        work: Runs the node; an exception means that the node failed.
        log: The file for all output and logs of the process and its children; overwritten.
        scratch: An existing folder for the files through which the process reports.
        gpus: Whether the process and its children see GPUs. TensorFlow reserves the memory of all GPUs that it sees,
            so nodes that do not train must not see any.
    """
    flush_streams()  # the child would write the buffered output too
    parent = os.getpid()
    # Signals are blocked until the child has its own handlers, so the child never runs a handler of the parent.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    pid = os.fork()
    if pid == 0:
        try:
            _run_child(node_id, work, log=log, scratch=scratch, gpus=gpus, parent=parent)
        finally:
            os._exit(ExitCode.FAILED)
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    return NodeProcess(id=node_id, pid=pid, log=log, scratch=scratch, started=time.monotonic())


def wait_any(processes: Collection[NodeProcess], timeout: float) -> list[NodeProcess]:
    """Waits until a process has ended, or for `timeout` seconds; returns the processes that have ended."""
    deadline = time.monotonic() + timeout
    while True:
        ended = [process for process in processes if _has_ended(process)]
        if ended or time.monotonic() >= deadline:
            return ended
        time.sleep(_POLL_SECONDS)


def collect(process: NodeProcess) -> NodeResult:
    """Returns the result of a process that has ended, and kills its remaining children."""
    kill(process)
    _, status, usage = os.wait4(process.pid, 0)
    outcome = _read_outcome(process)
    if outcome is None:
        files = noted_files(_notes(process.scratch, process.id))
        outcome = NodeOutcome(status=Status.FAILED, error=ended_text(os.waitstatus_to_exitcode(status), files))
    return NodeResult(
        id=process.id,
        status=outcome.status,
        seconds=process.seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
        outputs=outcome.outputs,
        log=process.log,
        error=outcome.error,
    )


def interrupt(process: NodeProcess) -> None:
    """Asks the node to stop: SIGTERM raises a KeyboardInterrupt in its main thread."""
    os.kill(process.pid, signal.SIGTERM)


def kill(process: NodeProcess) -> None:
    """Kills the node and all its children."""
    os.killpg(process.pid, signal.SIGKILL)


def _has_ended(process: NodeProcess) -> bool:
    """Returns whether the process has ended. It stays a zombie until `collect`, so its id is not reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _run_child(
    node_id: str, work: Callable[[], NodeOutcome], *, log: Path, scratch: Path, gpus: bool, parent: int
) -> None:
    """Runs the child and exits without running the `finally` blocks and `atexit` handlers of the parent."""
    exit_code = ExitCode.FAILED
    try:
        # A garbage collection over all imported objects would take 0.3 s and copy their memory pages.
        gc.freeze()
        limit_arenas()
        _end_with_parent(parent)
        _redirect(log)
        _restore_signals()
        if not gpus:
            os.environ.update(_NO_GPUS)
        notes = _notes(scratch, node_id)
        notes.mkdir()
        os.environ[NOTES_VARIABLE] = str(notes)
        os.environ[progress.PROGRESS_FILE_VARIABLE] = str(scratch / f"{node_id}{_PROGRESS_SUFFIX}")
        _write_outcome(scratch / f"{node_id}{_OUTCOME_SUFFIX}", _outcome_of(work))
        exit_code = ExitCode.DONE
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        flush_streams()
        if os.getppid() != parent:
            _kill_own_group()  # the runner has ended, so it cannot do this
        os._exit(exit_code)


def _end_with_parent(parent: int) -> None:
    """Starts a process group, which Ctrl-C in a terminal does not reach, and stops it when the parent ends."""
    os.setpgid(0, 0)
    if not end_with_parent(parent):
        os._exit(ExitCode.FAILED)
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    """Waits until the parent ends, and kills the process and its children after a grace period.

    Code may swallow the request to stop, and a long native call delays it. Without the kill, the node would keep
    running alone and hold the lock on the root.
    """
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    time.sleep(GRACE_SECONDS)
    _kill_own_group()


def _kill_own_group() -> None:
    os.killpg(os.getpid(), signal.SIGKILL)


def _redirect(log: Path) -> None:
    """Sends file descriptors 1 and 2, Python's streams and all logging to `log`; C++ libraries follow."""
    log_descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    null_descriptor = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_descriptor, 0)
    os.dup2(log_descriptor, 1)
    os.dup2(log_descriptor, 2)
    os.close(null_descriptor)
    os.close(log_descriptor)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    redact_streams()
    faulthandler.enable(file=2)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr, force=True
    )
    logging.getLogger().handlers[0].addFilter(lambda record: record.module != _LINE_PER_COLUMN)
    absl_logging.set_verbosity(absl_logging.INFO)
    # TFX executors would parse the arguments of this program as their flags.
    sys.argv = sys.argv[:1]


def _restore_signals() -> None:
    """Makes stop signals raise KeyboardInterrupt, so the `finally` and `with` blocks of the node run."""
    for number in _FORWARDED:
        signal.signal(number, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _outcome_of(work: Callable[[], NodeOutcome]) -> NodeOutcome:
    try:
        return work()
    except KeyboardInterrupt:
        logging.warning("Interrupted.", exc_info=True)
        return NodeOutcome(status=Status.INTERRUPTED)
    except BaseException as error:
        logging.exception("The node failed.")
        return NodeOutcome(status=Status.FAILED, error=failure.explain(error))


def _write_outcome(path: Path, outcome: NodeOutcome) -> None:
    write_atomically(path, json.dumps(asdict(outcome)))


def _read_outcome(process: NodeProcess) -> NodeOutcome | None:
    path = process.scratch / f"{process.id}{_OUTCOME_SUFFIX}"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return NodeOutcome(**fields | {"status": Status(fields["status"])})


def _notes(scratch: Path, node_id: str) -> Path:
    """Returns the folder in which a node records the files that it is reading."""
    return scratch / f"{node_id}.reading"
