"""Runs Python commands as forks of one process that has already imported TFX, TensorFlow and Beam.

`run` and `Process` replace `subprocess.run` and `subprocess.Popen`. A command has its own process, working folder,
environment and standard streams, but does not spend 6 to 20 seconds on imports. All pytest workers share one server,
which the first that needs it starts, and which ends with the last.
The server only imports and computes nothing, because TensorFlow hangs in a fork of a process in which it has computed.

Tests of the start itself (imports, exit codes of the interpreter, `python -I`) use `subprocess`.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import logging
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn, Self

from fullpass.pipeline.startup import SAFE_PATH, set_environment

FOLDER = "TESTS_WARM_PROCESS"
"""The environment variable with the folder of the server's socket; conftest.py sets it for all workers of a run."""
UNOPTIMIZED = "TESTS_UNOPTIMIZED"
"""The environment variable that turns off TensorFlow's graph optimizer; conftest.py sets it for all but long tests."""
IMPORTED = (
    "apache_beam.runners.direct.direct_runner",
    "fullpass.pipeline.running.build",
    "fullpass.pipeline.cli",
    "fullpass.pipeline.running.execution.display",
    "fullpass.pipeline.running.execution.runner",
    "fullpass.pipeline.record.gather_facts",
    "fullpass.trainer.run_fn",
    "fullpass.components.report.component",
    "tensorflow_data_validation",
    "tensorflow_model_analysis",
    "tensorflow_transform.beam",
    "tfx.v1",
)


class Process:
    """A running command with the parts of `subprocess.Popen` that tests use; `stdout=subprocess.PIPE` gives text."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike],
        *,
        cwd: str | os.PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | IO | None = None,
        stderr: int | IO | None = None,
        address: str | None = None,
    ) -> None:
        request = {
            "command": [os.fspath(part) for part in command],
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
        }
        self.args = request["command"]
        self.returncode: int | None = None
        self._receiving = threading.Lock()
        self.stdout: IO[str] | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(address or _server().address)
        with contextlib.ExitStack() as opened:
            if stdout == subprocess.PIPE:
                reading, writing = os.pipe()
                self.stdout, stdout = open(reading), opened.enter_context(open(writing, "w"))
            nothing = opened.enter_context(open(os.devnull))
            descriptors = [nothing.fileno(), _descriptor(stdout, 1), _descriptor(stderr, 2)]
            text = json.dumps(request).encode()
            socket.send_fds(self._connection, [len(text).to_bytes(8, "big")], descriptors)
            self._connection.sendall(text)
        self.pid = int.from_bytes(_receive(self._connection, 8), "big")

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with contextlib.suppress(ValueError):  # another thread has already waited and closed the connection
            if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        with self._receiving:
            if self.returncode is None:
                self.returncode = int.from_bytes(_receive(self._connection, 8), "big", signed=True)
                self._connection.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    command: Sequence[str | os.PathLike],
    *,
    cwd: str | os.PathLike | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess:
    """Returns the completed command with its output as text; with `check`, a failure raises CalledProcessError."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = Process(command, cwd=cwd, env=env, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        done = subprocess.CompletedProcess(process.args, code, out.read(), err.read())
    if check:
        done.check_returncode()
    return done


def program(folder: Path, target: Path) -> None:
    """Writes a program with the name of `target` into `folder` that runs `target` as a fork; for shell scripts."""
    text = f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests import warm_process
sys.exit(warm_process.Process([{str(target)!r}, *sys.argv[1:]], address={_server().address!r}).wait())
"""
    file = folder / target.name
    file.write_text(text)
    file.chmod(0o755)


def _descriptor(stream: int | IO | None, default: int) -> int:
    if stream is None:
        return default
    return stream if isinstance(stream, int) else stream.fileno()


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the process that forks commands is gone; its standard error says why")
        received += piece
    return received


class _Server:
    """A lease of the server, which this process starts if there is none. The server ends with its last lease."""

    def __init__(self) -> None:
        self.address = os.path.join(os.environ[FOLDER], "socket")
        with open(f"{self.address}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._held = self._lease()
            if self._held is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.warm_process", self.address],
                    cwd=Path(__file__).parents[1],  # puts the repository on the import path, whatever a test has set
                    env={name: value for name, value in os.environ.items() if name != SAFE_PATH},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
                assert self._process.stdout is not None
                assert self._process.stdout.readline() == b"ready\n", "the process that forks commands did not start"

    def _lease(self) -> socket.socket | None:
        """Returns a connection that keeps the server running; None if there is no server, or it is about to end."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.address)
            connection.sendall(_LEASE)
            _receive(connection, len(_LEASE))
        except OSError:
            connection.close()
            return None
        return connection


_LEASE = (0).to_bytes(8, "big")
"""Sent instead of the size of a request, and answered with the same."""
_lock = threading.Lock()
_servers: list[_Server] = []


def _server() -> _Server:
    with _lock:
        if not _servers:
            _servers.append(_Server())
        return _servers[0]


def turn_optimizer_off() -> None:
    """Turns TensorFlow's graph optimizer off if `UNOPTIMIZED` is set.

    It takes a third of the time of a graph that runs once or twice. Long tests and new interpreters, as for the run of
    the taxi example, keep it.
    """
    import tensorflow as tf

    if UNOPTIMIZED in os.environ:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


# --- the server ---------------------------------------------------------------------------------------------------


def _serve(address: str) -> dict[str, Any]:
    """Forks a process per request; returns only in the forks, with the request."""
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)  # of a server that ended
    listener.bind(address)
    listener.listen(64)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest; then the leases of this server end
    signal.set_wakeup_fd(writing)
    running: dict[int, socket.socket] = {}
    leases: list[Any] = [open(0, "rb", closefd=False)]  # the process that started this one holds the other end
    assert threading.active_count() == 1, threading.enumerate()
    gc.freeze()
    os.write(1, b"ready\n")
    while True:
        ready = select.select([listener, reading, *leases], [], [])[0]
        if reading in ready:
            os.read(reading, 4096)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                with running.pop(ended[0]) as connection, contextlib.suppress(OSError):
                    connection.sendall(os.waitstatus_to_exitcode(ended[1]).to_bytes(8, "big", signed=True))
        leases = [lease for lease in leases if lease not in ready]  # nothing comes on a lease but its end
        if not leases:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if listener in ready:
            connection = listener.accept()[0]
            size, streams, _, _ = socket.recv_fds(connection, 8, 3)
            if size in (_LEASE, b""):  # b"" is from a worker that was killed
                with contextlib.suppress(OSError):
                    connection.sendall(_LEASE)
                leases.append(connection)
                continue
            request = json.loads(_receive(connection, int.from_bytes(size, "big")))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for descriptor in (reading, writing, *streams):
                    os.close(descriptor)
                for opened in (listener, connection, *running.values(), *leases):
                    opened.close()
                return request
            for stream in streams:
                os.close(stream)
            running[pid] = connection
            with contextlib.suppress(OSError):
                connection.sendall(pid.to_bytes(8, "big"))


def _become(request: dict[str, Any]) -> None:
    """Sets this process up as the interpreter would for a command, and runs the command."""
    import numpy as np

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    np.random.seed()
    logging.root.handlers.clear()  # handlers of imported libraries; the program configures logging first
    logging.root.setLevel(logging.WARNING)
    for name, number in (("stdout", 1), ("stderr", 2)):  # reopened, since they were opened on other streams
        before = getattr(sys, name)
        setattr(
            sys,
            name,
            io.TextIOWrapper(
                open(number, "wb", closefd=False),
                before.encoding,
                before.errors,
                line_buffering=before.line_buffering or os.isatty(number),
                write_through=bool(os.environ.get("PYTHONUNBUFFERED")),
            ),
        )
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    program, *words = request["command"]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if not os.path.basename(program).startswith("python"):
        words = [program, *words]
    is_safe = words[0] == "-P"  # the program's folder is not put on the import path
    words = words[is_safe:]
    if os.path.isfile(words[0]):
        begin, first, sys.argv = partial(_run_file, words[0], module), os.path.dirname(words[0]), words
    elif words[0] == "-m":
        name = words[1]
        begin, first, sys.argv = partial(runpy.run_module, name, None, "__main__", True), os.getcwd(), words[1:]
    else:
        assert words[0] == "-c", f"forked are files, python [-P] -m and python [-P] -c, not python {words[0]}"
        begin, first, sys.argv = partial(exec, compile(words[1], "<string>", "exec"), vars(module)), "", words[1:]
        sys.argv[0] = "-c"
    sys.path[:] = [*([] if is_safe else [first]), *given, *(path for path in sys.path[1:] if path not in known)]
    importlib.invalidate_caches()
    _end(begin)


def _run_file(program: str, module: types.ModuleType) -> None:
    module.__file__ = program
    exec(compile(Path(program).read_text(), program, "exec"), vars(module))


def _end(begin: Callable[[], Any]) -> NoReturn:
    """Runs a program and exits as the interpreter does, but without finalizing hundreds of modules (0.6 s)."""
    code = 0
    try:
        begin()
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
        if isinstance(asked.code, str):
            print(asked.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for non-daemon threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _main(address: str) -> None:
    from fullpass.pipeline.startup import noise_to

    set_environment()
    with noise_to(Path(address).with_name("noise")):
        for name in IMPORTED:
            importlib.import_module(name)
    from tensorflow.python.eager import context

    turn_optimizer_off()
    assert context.context()._context_handle is None, "TensorFlow has computed; its forks would hang"
    _become(_serve(address))


if __name__ == "__main__":
    _main(sys.argv[1])
