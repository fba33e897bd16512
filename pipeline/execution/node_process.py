"""One node, one forked process: its output goes to its own log, and whatever it does ends with it.

The parent has imported TensorFlow, Beam and the rest once but has started none of their runtimes, so a fork
costs about 15 ms and finds everything loaded. The process that forks must have no Python thread of its own.
"""

import contextlib
import ctypes
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
from typing import NoReturn

from absl import logging as absl_logging

from pipeline.execution import failure
from pipeline.execution.events import NodeResult, Status
from preprocessing import progress

GRACE_SECONDS = 10.0
"""A node that was asked to stop and did not is killed after this time."""
_POLL_SECONDS = 0.01
_WATCH_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1
_FORWARDED = (signal.SIGINT, signal.SIGTERM)
_NO_GPUS = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
_OUTCOME_SUFFIX = ".outcome.json"
_PROGRESS_SUFFIX = ".progress.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a node's process says of itself before it leaves."""

    status: Status
    outputs: int = 0
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeProcess:
    """A node that was started: its process, and the files it talks through."""

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
        """Returns what the node last reported."""
        return progress.read(self.scratch / f"{self.id}{_PROGRESS_SUFFIX}")


def start(node_id: str, work: Callable[[], Outcome], *, log: Path, scratch: Path, gpus: bool = False) -> NodeProcess:
    """Forks a process that does `work` and leaves.

    Args:
        node_id: Names the files of the node.
        work: What to do; an exception out of it is the node's failure.
        log: Receives all that the process and its children print and log; overwritten.
        scratch: An existing directory for the files through which the process reports.
        gpus: Whether the process and its children see GPUs. One that only happens to load TensorFlow would take the
            memory of all of them, which then the Trainer beside it lacks.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    # Blocked until the child has its own handlers, so that a signal never runs the parent's in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    pid = os.fork()
    if pid == 0:
        try:
            _live(node_id, work, log=log, scratch=scratch, gpus=gpus, parent=parent)
        finally:
            os._exit(1)
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    return NodeProcess(id=node_id, pid=pid, log=log, scratch=scratch, started=time.monotonic())


def wait_any(processes: Collection[NodeProcess], timeout: float) -> list[NodeProcess]:
    """Returns the processes that have ended, as soon as there is one or after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        ended = [process for process in processes if _has_ended(process)]
        if ended or time.monotonic() >= deadline:
            return ended
        time.sleep(_POLL_SECONDS)


def collect(process: NodeProcess) -> NodeResult:
    """Takes leave of a process that has ended, and of any child it left behind."""
    kill(process)
    _, status = os.waitpid(process.pid, 0)
    outcome = _read_outcome(process) or _crash(os.waitstatus_to_exitcode(status))
    return NodeResult(
        id=process.id,
        status=outcome.status,
        seconds=process.seconds,
        outputs=outcome.outputs,
        log=process.log,
        error=outcome.error,
    )


def interrupt(process: NodeProcess) -> None:
    """Asks the node to stop: KeyboardInterrupt is raised in its main thread."""
    os.kill(process.pid, signal.SIGTERM)


def kill(process: NodeProcess) -> None:
    """Ends the node and all its children at once."""
    os.killpg(process.pid, signal.SIGKILL)


def _has_ended(process: NodeProcess) -> bool:
    """Whether the process has ended; it stays a zombie, so that its id cannot be given away, until `collect`."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _live(node_id: str, work: Callable[[], Outcome], *, log: Path, scratch: Path, gpus: bool, parent: int) -> NoReturn:
    """The whole life of the child; it leaves past every `finally`, `atexit` and thread of the parent."""
    exit_code = 1
    try:
        # What was imported never dies: a garbage collection that looked at all of it would cost 0.3 s and its memory.
        gc.freeze()
        _follow(parent)
        _redirect(log)
        _accept_signals()
        if not gpus:
            os.environ.update(_NO_GPUS)
        os.environ[progress.PROGRESS_FILE_VARIABLE] = str(scratch / f"{node_id}{_PROGRESS_SUFFIX}")
        _write_outcome(scratch / f"{node_id}{_OUTCOME_SUFFIX}", _attempt(work))
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.getppid() != parent:
            _kill_own_group()  # no runner is there to do it
        os._exit(exit_code)


def _follow(parent: int) -> None:
    """Makes a process group of its own, which a terminal's Ctrl-C does not reach, that ends with the parent."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_outlive, args=(parent,), daemon=True).start()


def _outlive(parent: int) -> None:
    """Waits for the end of the parent, and kills the process and its children where that did not end them.

    A request to stop may be lost: code may swallow it, and in a long call it is seen at the end of that only. The node
    would go on alone then, and hold the root against every run to come.
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
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    faulthandler.enable(file=2)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        level=logging.INFO,
        stream=sys.stderr,
        force=True,
    )
    absl_logging.set_verbosity(absl_logging.INFO)
    # Executors of TFX take what follows the program's name for flags of their own.
    sys.argv = sys.argv[:1]


def _accept_signals() -> None:
    """Lets a request to stop raise KeyboardInterrupt, so that `finally` and `with` of the node do their part."""
    for number in _FORWARDED:
        signal.signal(number, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _attempt(work: Callable[[], Outcome]) -> Outcome:
    try:
        return work()
    except KeyboardInterrupt:
        logging.warning("Interrupted.", exc_info=True)
        return Outcome(status=Status.INTERRUPTED)
    except BaseException as error:
        logging.exception("The node failed.")
        return Outcome(status=Status.FAILED, error=failure.explain(error))


def _write_outcome(path: Path, outcome: Outcome) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    os.replace(temporary, path)


def _read_outcome(process: NodeProcess) -> Outcome | None:
    path = process.scratch / f"{process.id}{_OUTCOME_SUFFIX}"
    if not path.exists():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Outcome(**fields | {"status": Status(fields["status"])})


def _crash(exit_code: int) -> Outcome:
    """Words for a process that left without an outcome; a negative exit code is the signal that ended it."""
    if exit_code == -signal.SIGKILL:
        error = (
            "Its process was killed (SIGKILL). Most often that is the system running out of memory: give the "
            "run more memory, fewer parallel nodes or Beam workers, or smaller batches."
        )
    elif exit_code < 0:
        name = signal.Signals(-exit_code).name
        error = f"Its process crashed in native code ({name}); the log ends with where."
    else:
        error = f"Its process left with exit code {exit_code} without an outcome; the log has its last words."
    return Outcome(status=Status.FAILED, error=error)
