"""Runs a command that ends within a stated time, together with every process that it started."""

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
"""Environment variable of a command and of all that it starts, whatever group and session they put themselves into."""
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
    """Runs a command in a process group of its own and returns its exit code and what it printed.

    Input and output are files, not pipes: a process that the command leaves in the background keeps nobody waiting.
    Ctrl-C in a terminal does not reach the command.

    Args:
        command: Program and arguments, started without a shell.
        seconds: After which the command and all that it started are killed: its group, and on Linux what has left the
            group (setsid) too, known by a variable of its environment.
        stdin: Its standard input.
        folder: Its working folder.
        environment: Its environment variables; those of this process by default.

    Raises:
        subprocess.TimeoutExpired: It took longer than `seconds`.
        OSError: It cannot be started.
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
    """Kills all processes with an environment variable, until a look finds none: one may just have forked."""
    for _ in range(_MOST_LOOKS):
        found = [pid for pid in _pids() if variable in _environment(pid)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _pids() -> list[int]:
    """Returns the ids of all processes; none where there is no /proc."""
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    """Returns the environment of a process; of one that has ended, or is another user's, it is empty."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
