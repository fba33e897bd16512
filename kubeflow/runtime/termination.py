"""Ends a container: exit code, cause of a failure in the pod's termination message, and handling of SIGTERM."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fullpass.kubeflow.protocol import FAILURE
from fullpass.kubeflow.runtime.lost_connections import restart_if_connection_was_lost
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.running.execution import failure

LOG_VARIABLE = "FULLPASS_TERMINATION_LOG"
"""Environment variable with the path of the file, if a pod's terminationMessagePath is not the default."""
_USUAL_LOG = "/dev/termination-log"
_MOST_BYTES = 4096  # Kubernetes truncates longer messages.
_STOPPED = "stopped: the pod received SIGTERM (deadline, eviction, or the run was terminated)."


class Terminated(BaseException):
    """The pod received SIGTERM."""

    def __str__(self) -> str:
        return _STOPPED


def run_to_end(
    name: str,
    work: Callable[[], None],
    record_error: Callable[[BaseException], None] = lambda _: None,
    *,
    reconnect: bool = False,
) -> NoReturn:
    """Runs the work of a container and exits, with the cause of a failure in the termination message.

    The process exits without running `atexit` handlers and destructors: TensorFlow, Beam and gRPC can abort during
    Python's shutdown after all output is written, and the task would count as failed.

    Args:
        record_error: Called with the error if the work failed.
        reconnect: Whether to start again after a lost connection.
    """
    signal.signal(signal.SIGTERM, _stop)
    try:
        try:
            work()
        except Exception as error:
            if reconnect:
                restart_if_connection_was_lost(name, error)
            raise
        code = ExitCode.DONE
    except Terminated as error:
        record_error(error)
        logging.warning("Stopped by SIGTERM.")
        report(name, _STOPPED)
        code = ExitCode.TERMINATED
    except BaseException as error:
        logging.exception("%s failed.", name)
        report(name, failure.explain(error))
        record_error(error)
        code = ExitCode.FAILED
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def report(name: str, cause: str) -> None:
    """Writes the cause to standard error, for people and for `submit`, and to the termination message if there is one.

    The line for `submit` is short enough to be one line of a log in Kubernetes.
    """
    message = f"{name}: {cause}"
    print_text(message, err=True)
    print_text(FAILURE + json.dumps(message[:_MOST_BYTES]), err=True)
    log = Path(os.environ.get(LOG_VARIABLE, _USUAL_LOG))
    if log.exists():
        log.write_bytes(message.encode(errors="backslashreplace")[:_MOST_BYTES])


def _stop(number: int, frame: FrameType | None) -> None:
    # A second signal must not interrupt the `finally` blocks that run after the first.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
