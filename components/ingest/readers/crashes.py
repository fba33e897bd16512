"""Turns the death of a process in a decoder into an error that names the file.

Arrow's decoders of Parquet, Arrow IPC and ORC crash on some damaged files, and nothing in the same process can tell of
it. So a reader notes what it reads, in a file that outlives it, and whoever waits for the process reads the note. The
runner waits for its nodes. A command that reads data itself does so in a fork, and waits for that.
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
from typing import Any, NoReturn, TypeVar

from fullpass.preprocessing.errors import UserError
from fullpass.preprocessing.forks import end_with_parent, flush_streams

NOTES_VARIABLE = "FULLPASS_READING"
"""Environment variable: the folder in which readers note what they read."""
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_T = TypeVar("_T")
_numbers = itertools.count()


@contextlib.contextmanager
def noted(path: str) -> Iterator[None]:
    """Notes that a file is read, where somebody waits for this process."""
    folder = os.environ.get(NOTES_VARIABLE)
    if not folder:
        yield
        return
    note = os.path.join(folder, f"{os.getpid()}.{next(_numbers)}")
    # A note that cannot be written (a full disk) must not end the reading.
    with contextlib.suppress(OSError), open(note, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(note)


def noted_files(folder: str | os.PathLike[str]) -> list[str]:
    """Returns what processes that have ended were reading, by the notes that they left in a folder."""
    with contextlib.suppress(FileNotFoundError):
        notes = sorted(Path(folder).iterdir())
        return list(dict.fromkeys(note.read_text(encoding="utf-8", errors="surrogateescape") for note in notes))
    return []


def crash_text(number: int, files: list[str]) -> str:
    """Returns what to say of a process that a signal has ended while it read some files."""
    named = " or ".join(files)
    return (
        f"{named}: reading it crashed the decoder ({signal.Signals(number).name}). The file is damaged, or has a form "
        "that Arrow cannot read: write it anew, or leave it out."
    )


def survive_crashes() -> None:
    """Goes on in a fork; the process that calls waits for it, and ends as it does.

    For a command, before it has loaded TensorFlow or started a thread.

    Raises:
        UserError: The fork has crashed while it read a file; raised in the process that waits.
    """
    with _notes() as folder:
        pid = _forked()
        if pid == 0:
            return
        code = _waited(pid, folder)
    if code >= 0:
        raise SystemExit(code)
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def apart(work: Callable[[], _T]) -> _T:
    """Returns what a function returns that runs in a fork; in the process itself, where another one waits for that.

    Raises:
        UserError: The fork has crashed while it read a file, or raised this itself.
    """
    if os.environ.get(NOTES_VARIABLE):
        return work()
    with _notes() as folder:
        receiving, sending = Pipe(duplex=False)
        pid = _forked()
        if pid == 0:
            _answer(work, sending)
        sending.close()
        with receiving:
            answer = _received(receiving)
        code = _waited(pid, folder)
    if answer is None:
        raise RuntimeError(f"the process that reads left with exit code {code}")
    done, value = answer
    if done:
        return value
    raise value


def _received(receiving: Connection) -> Any:
    """Returns what a fork has sent; None where it has ended before."""
    try:
        return receiving.recv()
    except EOFError:
        return None


def _answer(work: Callable[[], object], sending: Connection) -> NoReturn:
    try:
        try:
            answer = True, work()
        except UserError as error:
            answer = False, UserError(str(error))
        sending.send(answer)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(os.EX_OK)


@contextlib.contextmanager
def _notes() -> Iterator[str]:
    """Yields a new folder of notes, which is that of this process and of those that it starts; removed by its maker."""
    folder, maker = tempfile.mkdtemp(prefix="fullpass-reading-"), os.getpid()
    os.environ[NOTES_VARIABLE] = folder
    try:
        yield folder
    finally:
        if os.getpid() == maker:
            shutil.rmtree(folder, ignore_errors=True)
            os.environ.pop(NOTES_VARIABLE, None)


def _forked() -> int:
    """Forks; the child ends when its parent does."""
    flush_streams()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0 and not end_with_parent(parent):
        os._exit(os.EX_OSERR)
    return pid


def _waited(pid: int, folder: str) -> int:
    """Waits for a fork; returns its exit code, or less than 0 for a signal that is no crash in a decoder."""
    while True:
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            break
        except KeyboardInterrupt:  # of the terminal, which the fork has got too
            continue
    if -code in CRASHES and (files := noted_files(folder)):
        raise UserError(crash_text(-code, files))
    return code
