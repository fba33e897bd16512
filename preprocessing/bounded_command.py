"""Runs a command with a time limit, and kills it with every process that it started when the limit expires."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

_MARK = "FULLPASS_COMMAND"
"""Environment variable that marks a command and its descendants, even those in another process group or session."""
_LOOK_SECONDS = 0.01
_MOST_LOOKS = 200


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
        command: Program and arguments, started without a shell.
        seconds: Time limit, after which the command and its descendants are killed: its process group, and on Linux
            also processes that left the group (setsid), which an environment variable identifies.
        stdin: Its standard input.
        folder: Its working folder.
        environment: Its environment variables; those of this process by default.

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
            _kill_marked(f"{_MARK}={mark}".encode())
            process.wait()
            raise
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(command), code, printed.read(), errors.read())


def _kill_marked(variable: bytes) -> None:
    """Kills all processes with an environment variable; repeats until none is found, as one may have just forked."""
    for _ in range(_MOST_LOOKS):
        found = [pid for pid in _pids() if variable in _environment(pid)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _pids() -> list[int]:
    """Returns the ids of all processes; an empty list without /proc."""
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    """Returns the environment of a process; empty if it has ended or belongs to another user."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
