"""Runs a command that ends within a stated time, together with every process that it started."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


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
        seconds: After which the command and all processes of its group are killed.
        stdin: Its standard input.
        folder: Its working folder.
        environment: Its environment variables; those of this process by default.

    Raises:
        subprocess.TimeoutExpired: It took longer than `seconds`.
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(  # noqa: S603
            list(command),
            stdin=given,
            stdout=printed,
            stderr=errors,
            cwd=folder,
            env=environment,
            process_group=0,
        )
        try:
            code = process.wait(seconds)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        printed.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(command), code, printed.read(), errors.read())
