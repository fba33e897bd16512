"""How a container ends: its exit code, the cause in the pod's termination message, and the signal to stop."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pipeline.execution import failure

LOG_VARIABLE = "FULLPASS_TERMINATION_LOG"
"""Names the file, where a pod's terminationMessagePath is not the usual one."""
_USUAL_LOG = "/dev/termination-log"
_MOST_BYTES = 4096  # Kubernetes keeps no more
_STOPPED = "stopped: the pod was asked to end (deadline, eviction, or the run was terminated)."
EXIT_FAILED = 1
EXIT_TERMINATED = 128 + signal.SIGTERM


class Terminated(BaseException):
    """The pod was asked to stop."""

    def __str__(self) -> str:
        return _STOPPED


def run_to_end(name: str, work: Callable[[], None], note: Callable[[BaseException], None] = lambda _: None) -> NoReturn:
    """Does the work of a container and leaves the process, with the cause of a failure where Kubernetes shows it.

    The process leaves past `atexit` and destructors: after all is written, TensorFlow, Beam and gRPC can still abort
    while Python takes them apart, and the task would count as failed.

    Args:
        name: of the node, for the message.
        work: what is to be done.
        note: told what it failed with.
    """
    signal.signal(signal.SIGTERM, _stop)
    try:
        work()
        code = 0
    except Terminated as error:
        note(error)
        logging.warning("Stopped by SIGTERM.")
        report(name, _STOPPED)
        code = EXIT_TERMINATED
    except BaseException as error:
        logging.exception("%s failed.", name)
        report(name, failure.explain(error))
        note(error)
        code = EXIT_FAILED
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def report(name: str, cause: str) -> None:
    """Writes the cause to standard error, and to the termination message if the container has one."""
    message = f"{name}: {cause}"
    sys.stderr.write(f"{message}\n")
    log = Path(os.environ.get(LOG_VARIABLE, _USUAL_LOG))
    if log.exists():
        log.write_bytes(message.encode()[:_MOST_BYTES])


def _stop(number: int, frame: FrameType | None) -> None:
    # Once: a second signal must not break what `finally` does after the first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
