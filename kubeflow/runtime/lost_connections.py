"""Starts a container's program again in its container after a failure that passes: a lost connection.

Kubeflow Pipelines 2.17 as shipped does not retry a container that fails, whatever `retries` says. The container's
process replaces itself, so it keeps its number and the launcher sees one process, one exit code and one execution in
the metadata. Nothing of the failed attempt remains in memory.
"""

import logging
import math
import os
import sys
import time

from fullpass.pipeline.running.execution import failure

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
        sys.executable,
        [sys.executable, "-P", *sys.orig_argv[1:]],
        {**os.environ, ATTEMPT_VARIABLE: str(attempt + 1)},
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
