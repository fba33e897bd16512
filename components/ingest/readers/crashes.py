"""Turns the crash of a process in a decoder into an error that names the input file.

Arrow's decoders of Parquet, Arrow IPC and ORC crash on some damaged files, and the crashed process cannot report the
error. Therefore a reader writes the path of its input to a note file that outlives the process, and the waiting process
reads the note. The runner waits for its nodes. A command that reads data itself does so in a fork, and waits for the
fork.
"""

import contextlib
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, TypeVar

from fullpass.base.errors import UserError
from fullpass.base.processes import end_with_parent, flush_streams

NOTES_VARIABLE = "FULLPASS_READING"
"""Environment variable with the folder of the note files."""
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_T = TypeVar("_T")
_numbers = itertools.count()


@contextlib.contextmanager
def noted(path: str) -> Iterator[None]:
    """Keeps a note of the path while the file is read, if another process waits for this one."""
    folder = os.environ.get(NOTES_VARIABLE)
    if not folder:
        yield
        return
    note = os.path.join(folder, f"{os.getpid()}.{next(_numbers)}")
    # A note that cannot be written (full disk) must not stop the reading.
    with contextlib.suppress(OSError), open(note, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(note)


def noted_files(folder: str | os.PathLike[str]) -> list[str]:
    """Returns the files that crashed processes were reading, from the notes that they left in a folder."""
    with contextlib.suppress(FileNotFoundError):
        notes = sorted(Path(folder).iterdir())
        return list(dict.fromkeys(note.read_text(encoding="utf-8", errors="surrogateescape") for note in notes))
    return []


def ended_text(exit_code: int, files: list[str]) -> str:
    """Returns the error message for a process that ended without a result.

    Args:
        exit_code: Below 0 it is the signal that ended the process.
        files: The files that it was reading, if they may be the cause of a crash.
    """
    if exit_code == -signal.SIGKILL:
        return (
            "Its process was killed (SIGKILL). The most common cause is that the system ran out of memory: give the "
            "run more memory, fewer parallel nodes or Beam workers, or smaller batches."
        )
    if -exit_code in CRASHES and files:
        return crash_text(-exit_code, files)
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return f"Its process crashed in native code ({name}); the end of the log shows where."
    return f"Its process ended with exit code {exit_code} without a result; see the end of the log."


def worker_ended_text(exit_code: int) -> str:
    """Returns the error message for a worker process of Beam that ended too early; see `ended_text`."""
    folder = os.environ.get(NOTES_VARIABLE)
    return f"A Beam worker ended. {ended_text(exit_code, noted_files(folder) if folder else [])}"


def crash_text(number: int, files: list[str]) -> str:
    """Returns the error message for a process that a signal ended while it read files."""
    named = " or ".join(files)
    return (
        f"{named}: reading it crashed the decoder ({signal.Signals(number).name}). The file is damaged, or has a form "
        "that Arrow cannot read: write it again, or remove it from the source."
    )


def continue_in_fork() -> None:
    """Continues in a fork. The calling process waits for the fork, and exits with its exit code or signal.

    Commands call this before they load TensorFlow or start a thread.

    Raises:
        UserError: The fork crashed while it read a file. The waiting process raises this.
    """
    with _notes() as folder:
        pid = _fork()
        if pid == 0:
            return
        code = _wait_for(pid, folder)
    if code >= 0:
        raise SystemExit(code)
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def run_in_fork(work: Callable[[], _T]) -> _T:
    """Runs a function in a fork and returns its result; runs it in this process if another one waits for this process.

    Raises:
        UserError: The fork crashed while it read a file, or the function raised this.
    """
    if os.environ.get(NOTES_VARIABLE):
        return work()
    with _notes() as folder:
        receiving, sending = Pipe(duplex=False)
        pid = _fork()
        if pid == 0:
            _send_result(work, sending)
        sending.close()
        result = None
        with receiving, contextlib.suppress(EOFError):  # the fork may end before it sends
            result = receiving.recv()
        code = _wait_for(pid, folder)
    if result is None:
        raise RuntimeError(f"the reading process ended with exit code {code}")
    done, value = result
    if done:
        return value
    raise value


def _send_result(work: Callable[[], object], sending: Connection) -> NoReturn:
    try:
        try:
            result = True, work()
        except UserError as error:
            result = False, UserError(str(error))
        sending.send(result)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(os.EX_OK)


@contextlib.contextmanager
def _notes() -> Iterator[str]:
    """Yields a new notes folder for this process and its children. The process that created it removes it."""
    folder, maker = tempfile.mkdtemp(prefix="fullpass-reading-"), os.getpid()
    os.environ[NOTES_VARIABLE] = folder
    try:
        yield folder
    finally:
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)
            os.environ.pop(NOTES_VARIABLE, None)


def _fork() -> int:
    """Forks; the child ends when its parent does."""
    flush_streams()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0 and not end_with_parent(parent):
        os._exit(os.EX_OSERR)
    return pid


def _wait_for(pid: int, folder: str) -> int:
    """Waits for a fork, and returns its exit code, which is below 0 for a signal that is no crash of a decoder.

    Raises:
        UserError: The fork crashed while it read a file.
    """
    while True:
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            break
        except KeyboardInterrupt:  # the terminal sends it to the fork, too
            continue
    if -code in CRASHES and (files := noted_files(folder)):
        raise UserError(crash_text(-code, files))
    return code
