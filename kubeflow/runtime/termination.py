"""Ends a container: exit code, cause of a failure in the pod's termination message, and handling of SIGTERM.

After a failure that passes, a lost connection, the program starts again in its container: Kubeflow Pipelines 2.17 as
shipped does not retry a container that fails, whatever `retries` says. The container's process replaces itself, so it
keeps its number and the launcher sees one process, one exit code and one execution in the metadata. Nothing of the
failed attempt remains in memory.
"""

import json
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fullpass.kubeflow.protocol import FAILURE
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.printing import print_text
from fullpass.pipeline.running.execution import failure

LOG_VARIABLE = "FULLPASS_TERMINATION_LOG"
"""Environment variable with the path of the file, if a pod's terminationMessagePath is not the default."""
_USUAL_LOG = "/dev/termination-log"
_MOST_BYTES = 4096
"""Longest termination message; Kubernetes truncates longer ones."""
_STOPPED = "stopped: the pod received SIGTERM (deadline, eviction, or the run was terminated)."

ATTEMPT_VARIABLE = "FULLPASS_ATTEMPT"
"""Environment variable: number of the attempt in this container, from 1."""
WAITS_VARIABLE = "FULLPASS_RECONNECT_SECONDS"
"""Environment variable: seconds to wait before each further attempt; empty for no further attempts."""
_WAITS = "10 60"
_PASSING = frozenset(
    {
        "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError",
        "BrokenPipeError", "TimeoutError",
        # urllib3, requests, google-auth
        "NewConnectionError", "MaxRetryError", "ProtocolError", "ChunkedEncodingError", "TransportError",
        # aiohttp, which the drivers of gs:// and s3:// use
        "ClientConnectorError", "ClientOSError", "ServerDisconnectedError", "ClientPayloadError",
        # botocore
        "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError",
        # google-api-core, grpc, TensorFlow
        "ServiceUnavailable", "GatewayTimeout", "DeadlineExceeded", "UnavailableError", "DeadlineExceededError",
    }
)  # fmt: skip
"""Names of exceptions: a container need not have their libraries, and Beam passes errors on as text."""


class Terminated(BaseException):
    """The pod received SIGTERM."""

    def __str__(self) -> str:
        return _STOPPED


def run_to_end(
    name: Callable[[], str],
    work: Callable[[], None],
    record_error: Callable[[BaseException], None] = lambda _: None,
    *,
    reconnect: bool = False,
) -> NoReturn:
    """Runs the work of a container and exits, with the cause of a failure in the termination message.

    The process exits without running `atexit` handlers and destructors: TensorFlow, Beam and gRPC can abort during
    Python's shutdown after all output is written, and the task would count as failed.

    Args:
        name: Of what runs now, for messages.
        record_error: Called with the error if the work failed.
        reconnect: Whether to start again after a lost connection.
    """
    signal.signal(signal.SIGTERM, _stop)
    try:
        try:
            work()
        except Exception as error:
            if reconnect:
                restart_if_connection_was_lost(name(), error)
            raise
        code = ExitCode.DONE
    except Terminated as error:
        record_error(error)
        logging.warning("Stopped by SIGTERM.")
        _report(name(), _STOPPED)
        code = ExitCode.TERMINATED
    except BaseException as error:
        logging.exception("%s failed.", name())
        _report(name(), failure.explain(error))
        record_error(error)
        code = ExitCode.FAILED
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _report(name: str, cause: str) -> None:
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


def restart_if_connection_was_lost(name: str, error: BaseException) -> None:
    """Replaces this process by its next attempt after a lost connection; returns if there is none."""
    if not is_lost_connection(error):
        return
    attempt = int(os.environ.get(ATTEMPT_VARIABLE, "1"))
    waits = _waits(os.environ.get(WAITS_VARIABLE, _WAITS))
    if attempt > len(waits):
        return
    wait = waits[attempt - 1]
    logging.warning(
        "%s: a connection was lost. Attempt %d of %d in this container begins in %g s.",
        name, attempt + 1, len(waits) + 1, wait, exc_info=error,
    )  # fmt: skip
    time.sleep(wait)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(  # noqa: S606
        sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]], {**os.environ, ATTEMPT_VARIABLE: str(attempt + 1)}
    )


def _waits(text: str) -> list[float]:
    try:
        waits = [float(word) for word in text.split()]
        if all(0 <= wait < math.inf for wait in waits):
            return waits
    except ValueError:
        pass
    # The failure itself must be told, so this is no error of its own.
    logging.error(
        "%s is %r; it lists the seconds before each further attempt, such as %r. These are used.",
        WAITS_VARIABLE, text, _WAITS,
    )  # fmt: skip
    return [float(word) for word in _WAITS.split()]


def is_lost_connection(error: BaseException) -> bool:
    """Returns whether the cause of an error is a lost connection, and nothing in it is an error of data or settings."""
    names, is_user_error = failure.causes(error)
    return not is_user_error and not _PASSING.isdisjoint(names)
