"""Runs a program in a process of its own that has TensorFlow and nothing else of the training.

A new process imports TensorFlow for most of its time. A run imports it anyway, first of all, so it prepares the process
then: a fork that waits until a node sends it a program. Like a new process, it searches only the environment for
modules, and it forgets those of Fullpass and of the user.
"""

import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from fullpass.base.processes import end_with_parent, flush_streams

_MESSAGE_BYTES = 1 << 16
"""Longest message of the process: a command and its arguments."""
_LIBRARIES = ("fullpass", "keras", "tfx", "apache_beam", "tensorflow_transform", "tfx_bsl")
"""What a program must not see; a process that has imported one of the last three, with C++ code, is not prepared."""


class _Prepared(NamedTuple):
    pid: int
    channel: socket.socket


_prepared: list[_Prepared] = []


def prepare() -> None:
    """Forks the process for the next `run_program` of this process or of one forked from it; TensorFlow is imported.

    Does nothing if this process has imported more of the training: then `run_program` starts a new process.
    """
    if _prepared or any(name in sys.modules for name in _LIBRARIES[3:]):
        return
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    flush_streams()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _serve(theirs, parent)
        finally:
            os._exit(os.EX_SOFTWARE)
    theirs.close()
    _prepared.append(_Prepared(pid, ours))


@contextlib.contextmanager
def ended_after() -> Iterator[None]:
    """Ends the process that `prepare` forks within the block."""
    try:
        yield
    finally:
        while _prepared:
            pid, channel = _prepared.pop()
            channel.close()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_program(
    program: Path, arguments: Sequence[str], *, folder: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs a Python program, in the prepared process if there is one that is not used yet.

    Args:
        folder: The working folder.

    Raises:
        subprocess.TimeoutExpired: The program ran longer than `seconds`, and was ended.
    """
    command = [sys.executable, "-I", str(program), *arguments]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
    ):
        code = _run_prepared(command, folder, seconds, [printed.fileno(), errors.fileno()])
        if code is None:
            code = subprocess.run(
                command, cwd=folder, stdout=printed, stderr=errors, timeout=seconds, check=False
            ).returncode
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, printed.read(), errors.read())


def _run_prepared(command: list[str], folder: str, seconds: float, streams: list[int]) -> int | None:
    """Returns the exit code of a program, -1 if its process crashed; None if no prepared process is left."""
    if not _prepared:
        return None
    pid, channel = _prepared[0]
    channel.settimeout(seconds)
    try:
        socket.send_fds(channel, [json.dumps([command[2:], folder]).encode()], streams)
        if not channel.recv(1):
            return None  # it has run a program before
        code = channel.recv(1)
    except OSError as error:
        if isinstance(error, TimeoutError):
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, seconds) from error
        return None
    return code[0] if code else -1


def _serve(channel: socket.socket, parent: int) -> None:
    """Waits for a program, runs it, and exits."""
    os.setpgid(0, 0)  # Ctrl-C in a terminal is for the runner, which ends this process
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    gc.freeze()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    if not end_with_parent(parent):
        return
    message, streams, *_ = socket.recv_fds(channel, _MESSAGE_BYTES, 2)
    if not message:
        return
    channel.send(b"b")
    for descriptor, stream in enumerate(streams, 1):
        os.dup2(stream, descriptor)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv, folder = json.loads(message)
    channel.send(bytes([_run_here(sys.argv[0], folder)]))


def _run_here(program: str, folder: str) -> int:
    code = 0
    try:
        os.chdir(folder)
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = "-1"
        sys.path[:] = filter(_in_environment, sys.path)
        for name in [name for name, module in sys.modules.items() if _is_foreign(name, module)]:
            del sys.modules[name]
        runpy.run_path(program, run_name="__main__")
    except SystemExit as exit_request:
        code = exit_request.code if isinstance(exit_request.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        flush_streams()
    return code


def _in_environment(path: str) -> bool:
    return any(Path(path).is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix))


def _is_foreign(name: str, module: ModuleType) -> bool:
    """Whether a module is one that the program must not see, or lies outside of the environment."""
    file = getattr(module, "__file__", None)
    return name.partition(".")[0] in _LIBRARIES or (file is not None and not _in_environment(file))
