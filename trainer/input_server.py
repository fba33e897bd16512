"""The servers of a tf.data service: one dispatcher, and workers that parse and transform for trainers."""

import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from preprocessing.errors import UserError

Say = Callable[[str], None]


def run_dispatcher(port: int, say: Say, work_dir: Path | None = None) -> None:
    """Runs a dispatcher until SIGTERM or SIGINT.

    Args:
        port: that it listens at; 0 takes a free one.
        say: told where it listens.
        work_dir: where it keeps what it knows, so that it goes on after a restart; None keeps nothing.

    Raises:
        UserError: The port is taken, or the folder cannot be written.
    """
    config = tf.data.experimental.service.DispatcherConfig(
        port=port,
        work_dir=str(work_dir) if work_dir else None,
        fault_tolerant_mode=work_dir is not None,
    )
    with _Stop() as stop:
        try:
            server = tf.data.experimental.service.DispatchServer(config)
        except (tf.errors.OpError, RuntimeError) as error:
            raise UserError(f"the dispatcher cannot start at port {port}: {_first_line(error)}") from error
        say(f"dispatcher listens at port {server.target.rpartition(':')[2]}")
        stop.wait()
        del server


def run_worker(dispatcher: str, say: Say, host: str | None = None, port: int = 0) -> None:
    """Runs a worker until SIGTERM or SIGINT; it waits for its dispatcher as long as that takes.

    Args:
        dispatcher: host:port.
        say: told where it works.
        host: under which trainers reach this machine; None: localhost if the dispatcher is there, else its name.
        port: that it listens at; 0 takes a free one.

    Raises:
        UserError: The port is taken.
    """
    host = host or ("localhost" if _is_local(dispatcher) else socket.gethostname())
    config = tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher,
        worker_address=f"{host}:%port%",
        port=port,
    )
    with _Stop() as stop:
        server = tf.data.experimental.service.WorkerServer(config, start=False)
        say(f"worker of the dispatcher at {dispatcher}, for trainers at {host}")
        try:
            server.start()
        except (tf.errors.OpError, RuntimeError) as error:
            raise UserError(f"the worker cannot start at port {port}: {_first_line(error)}") from error
        stop.wait()
        del server


class _Stop:
    """Collects SIGTERM and SIGINT instead of being ended by them."""

    def __enter__(self) -> threading.Event:
        asked = threading.Event()
        self._before = {
            number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGTERM, signal.SIGINT)
        }
        return asked

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
