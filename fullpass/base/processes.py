"""Processes: cores that one may use, forks that end with their parent, commands and calls with a time limit, and stop
signals that are noted or deferred by processes that must end something else first."""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
_CGROUPS = Path("/sys/fs/cgroup")
_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""
_M_ARENA_MAX = -8
"""From glibc's malloc.h."""
_MARK = "FULLPASS_COMMAND"
"""Environment variable that marks a command and its descendants, even those in another process group or session."""
_LOOK_SECONDS = 0.01
"""Seconds between searches for processes that survived."""
_MOST_LOOKS = 200
"""Searches at most: two seconds, after which a process waits in the kernel and cannot be killed."""


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Returns the number of whole cores that the process may use, at least 1.

    It is the minimum of the cores that the process may be scheduled on and of the quota of its control group.
    Kubernetes and Docker set that quota for a limit such as `cpu: 2`. In a container the group is the root of the
    mount.
    """
    scheduled = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroups)
    return scheduled if quota is None else max(1, min(scheduled, int(quota)))


def _quota(cgroups: Path) -> float | None:
    """Returns the number of cores that the control group may use at a time, or None without a limit."""
    try:
        if (cgroups / "cpu.max").is_file():  # version 2: "200000 100000", or "max 100000"
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota, period = ((cgroups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):
        return None


def flush_streams() -> None:
    """Flushes standard output and error; a full disk or a closed reader is no error.

    Otherwise a fork would write the buffered text again. Text that could not be written stays in the buffer, so a later
    flush fails again, long after the lost print.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def end_with_parent(parent: int) -> bool:
    """Makes this process receive SIGTERM when its parent ends; returns whether the parent is still alive."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent


def limit_arenas(most: int | None = None) -> None:
    """Limits glibc to `most` memory arenas in this process and in those it starts, instead of eight per core.

    Without `most` it is one per usable core, but at least two.

    Threads that parse and free batches leave fragments in every arena, which makes resident memory grow for minutes. If
    the user sets MALLOC_ARENA_MAX, that value is kept. Other C libraries have no such arenas.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        most = most or max(2, usable_cores())
        mallopt(_M_ARENA_MAX, most)
        os.environ["MALLOC_ARENA_MAX"] = str(most)  # glibc reads it when a program starts


def in_thread(work: Callable[[], Result]) -> "Future[Result]":
    """Calls `work` in a thread, for which a process that ends does not wait; returns its result to come."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def run_bounded(
    command: Sequence[str],
    *,
    seconds: float,
    stdin: bytes = b"",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in its own process group and returns its exit code and its output.

    Input and output are files, not pipes, so a background process that the command leaves behind does not block the
    caller. Ctrl-C in a terminal does not reach the command.

    Args:
        seconds: Time limit, after which the command and its descendants are killed: its process group, and on Linux
            also processes that left the group (setsid), which an environment variable identifies.

    Raises:
        subprocess.TimeoutExpired: The command ran longer than `seconds`.
        OSError: The command cannot be started.
    """
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603
            list(command),
            stdin=given,
            stdout=printed,
            stderr=errors,
            cwd=folder,
            env={**(os.environ if environment is None else environment), _MARK: mark},
            process_group=0,
        )
        try:
            code = process.wait(seconds)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            _kill_marked(mark)
            process.wait()
            raise
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(command), code, printed.read(), errors.read())


def _kill_marked(mark: str) -> None:
    """Kills all processes with a mark; repeats until none is found, as one may have just forked."""
    import psutil  # needed only here, and takes as long as a tenth of `check`

    for _ in range(_MOST_LOOKS):
        found = [p for p in psutil.process_iter(["environ"]) if (p.info["environ"] or {}).get(_MARK) == mark]
        if not found:
            return
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_LOOK_SECONDS)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LONGEST_SLEEP = 0.1
"""Seconds between looks for a signal, which a sleeping thread would not notice."""


class StopSignals:
    """The stop signals of this process; `count` is the number of signals received.

    It is no `threading.Event`: its `set` takes a lock that the interrupted code may hold, and a wait without a time
    limit would never end if the system gives the signal to another thread, as Python handles it in this one.
    """

    count = 0

    def receive(self, number: int, frame: object) -> None:
        """Handles a signal."""
        self.count += 1

    def is_set(self) -> bool:
        """Returns whether a signal has been received."""
        return self.count > 0

    def wait(self, timeout: float = math.inf) -> bool:
        """Waits up to `timeout` seconds for a signal; returns whether one has been received."""
        deadline = time.monotonic() + timeout
        while not self.count and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP))
        return self.is_set()


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Yields what SIGTERM and SIGINT set instead of ending this process."""
    stop = StopSignals()
    with _handled_by(stop.receive):
        yield stop


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Defers SIGTERM and SIGINT; yields a list to which the number of each received signal is appended.

    When the block ends, the first signal is sent again and has its original effect. If the same signal arrives again
    while the block runs, it is not deferred.
    """
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    try:
        with _handled_by(note):
            yield received
    finally:
        if received:
            os.kill(os.getpid(), received[0])


@contextmanager
def _handled_by(receive: Callable[[int, object], None]) -> Iterator[None]:
    """Calls `receive` for stop signals within the block. Outside the main thread, signal handling does not change."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
