"""The servers of a tf.data service: one dispatcher, and workers that parse and transform for trainers."""

import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.processes import stop_signals

Log = Callable[[str], None]


def run_dispatcher(port: int, log: Log, work_dir: Path | None = None) -> None:
    """Runs a dispatcher until SIGTERM or SIGINT, and ends the process.

    Args:
        port: The port to listen at; 0 takes a free one.
        work_dir: The folder of its state, with which it resumes after a restart; None keeps no state.

    Raises:
        UserError: The port is taken, or the folder cannot be written.
    """
    config = tf.data.experimental.service.DispatcherConfig(
        port=port, work_dir=str(work_dir) if work_dir else None, fault_tolerant_mode=work_dir is not None
    )
    with stop_signals() as stop:
        try:
            server = tf.data.experimental.service.DispatchServer(config)
        except (tf.errors.OpError, RuntimeError) as error:
            raise UserError(f"the dispatcher cannot start at port {port}: {_first_line(error)}") from error
        log(f"dispatcher listens at port {server.target.rpartition(':')[2]}")
        stop.wait()
        _leave()


def run_worker(dispatcher: str, log: Log, host: str | None = None, port: int = 0) -> None:
    """Runs a worker until SIGTERM or SIGINT, and ends the process; it waits for its dispatcher without a time limit.

    Args:
        dispatcher: The host:port of the dispatcher.
        host: The name of this machine for trainers; None uses localhost if the dispatcher is local, else the hostname.
        port: The port to listen at; 0 takes a free one.

    Raises:
        UserError: The port is taken.
    """
    host = host or ("localhost" if _is_local(dispatcher) else socket.gethostname())
    config = tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher, worker_address=f"{host}:%port%", port=port
    )
    with stop_signals() as stop:
        server = tf.data.experimental.service.WorkerServer(config, start=False)
        log(f"worker of the dispatcher at {dispatcher}, for trainers at {host}")
        try:
            server.start()
        except (tf.errors.OpError, RuntimeError) as error:
            raise UserError(f"the worker cannot start at port {port}: {_first_line(error)}") from error
        stop.wait()
        _leave()


def _leave() -> NoReturn:
    """Ends the process, and with it the server.

    A regular stop waits until every trainer has released the server, which may never happen. A killed server costs its
    trainers time but no rows: they request them from another worker, or from this one after its restart.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(os.EX_OK)


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
