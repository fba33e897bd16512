"""Tries damaged files one after the other in subprocesses; a crash of a subprocess is a finding and does not end it."""

import contextlib
import importlib
import multiprocessing
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz import targets

_LONGEST_SECONDS = 20
_MOST_MEMORY_KB = 6 << 20
_STARTS_A_PROCESS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile", "pty.spawn")


def target_names() -> list[str]:
    """Returns the names of all targets."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def try_seed(target: str, seed: int) -> str:
    """Returns the outcome of one attempt.

    Raises:
        Exception: Any exception means that the attempt found a defect.
    """

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {_LONGEST_SECONDS} s")

    module = importlib.import_module(f"{targets.__name__}.{target}")
    before = signal.signal(signal.SIGALRM, stop)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    signal.alarm(_LONGEST_SECONDS)
    try:
        return str(module.try_one(seed, folder))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        shutil.rmtree(folder, ignore_errors=True)


def attempts(target: str, first: int, seconds: float, most: int) -> Iterator[tuple[int, str, bool]]:
    """Runs attempts in subprocesses; yields seed, outcome, and whether the outcome is a defect.

    Args:
        target: Name of the target's module.
        first: The first seed.
        seconds: Time limit of all attempts together, without the start of the processes.
        most: Maximum number of attempts.
    """
    seed, end = first, first + most
    while seed < end and seconds > 0:
        here, there = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(there, target, seed, seconds, end))
        process.start()
        there.close()
        ready = time.monotonic()
        with contextlib.suppress(EOFError):
            here.recv()
            ready = time.monotonic()
            while True:
                result = here.recv()
                yield result
                seed = result[0] + 1
        process.join()
        seconds -= time.monotonic() - ready
        if not process.exitcode:
            return
        yield seed, f"the process died: exit code {process.exitcode}", True
        seed += 1


def _work(results: Connection, target: str, first: int, seconds: float, end: int) -> None:
    """Sends a message when ready, then tries seeds one after the other and sends each outcome."""
    importlib.import_module("tensorflow")  # its import starts subprocesses to identify the machine
    importlib.import_module(f"{targets.__name__}.{target}")
    sys.addaudithook(_no_process)
    results.send(None)
    until = time.monotonic() + seconds
    for seed in range(first, end):
        if time.monotonic() > until:
            return
        try:
            results.send((seed, try_seed(target, seed), False))
        except Exception as error:  # every failure is reported, and none stops the next attempts
            results.send((seed, f"{type(error).__name__}: {str(error)[:600]}", True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if peak > _MOST_MEMORY_KB:
            results.send((seed, f"{peak >> 10:,} MB of memory", True))
            return


def _no_process(event: str, _: object) -> None:
    if event in _STARTS_A_PROCESS:
        raise RuntimeError(f"a process is started: {event}")
