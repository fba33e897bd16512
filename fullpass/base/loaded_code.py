"""Records the modules that a user's functions load and the files that they open, so that a run notices their changes.

Python reports every file that it opens and every folder that it lists to an audit hook. What belongs to the environment
(installed packages, Python itself, Fullpass) is left out: its versions are recorded. So is what the function writes.
"""

import hashlib
import inspect
import json
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import fullpass
from fullpass.base.files import write_atomically

RECORDS_VARIABLE = "FULLPASS_LOADED_CODE"
"""Environment variable with the folder of the records, in the root of the pipeline; child processes inherit it."""
_HASHED_BYTES = 64 << 20
_TOKEN = "token"
_RECORD = ".json"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_EVENTS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_IMPORT_SYSTEM = "<frozen importlib"
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/share/")
_GENERATED = "__pycache__"
_FULLPASS = f"{os.path.dirname(fullpass.__file__)}{os.sep}"
_DAMAGED = {"": "a record that cannot be read"}


class _Audit:
    """What this process has opened. active: thread -> what it reads; functions: function -> what it has loaded."""

    def __init__(self) -> None:
        self.active: dict[int, set[str]] = {}
        self.written: set[str] = set()
        self.functions: dict[str, set[str]] = {}

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active or event not in _EVENTS or (opened := self.active.get(threading.get_ident())) is None:
            return
        named = args[0] if args[0] is not None else "."
        if not isinstance(named, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(named))
        if event == "open" and (args[2] or 0) & _WRITES:
            self.written.add(path)
        elif (here := inspect.currentframe()) is not None and _asks_for_user(here.f_back):
            opened.add(path)


def _asks_for_user(frame: FrameType | None) -> bool:
    """Returns whether the user's code has called what a frame runs, be it by a library.

    It has not if Fullpass or an import is nearer: what an import finds is among the modules, and what a library opens
    while it is imported belongs to the library.
    """
    while frame is not None and not frame.f_code.co_filename.startswith((_IMPORT_SYSTEM, _FULLPASS)):
        if not frame.f_code.co_filename.startswith(("<", *_environment())):
            return True
        frame = frame.f_back
    return False


@cache
def _audit() -> _Audit:
    audit = _Audit()
    sys.addaudithook(audit)
    return audit


@contextmanager
def recorded(function: str) -> Iterator[None]:
    """Records what a block loads for a function of the user, if `RECORDS_VARIABLE` is set.

    Args:
        function: Its path, as module:function.
    """
    folder = os.environ.get(RECORDS_VARIABLE)
    if folder is None:
        yield
        return
    loaded = set[str]()
    try:
        with watched(loaded):
            yield
    finally:
        found = _audit().functions.setdefault(function, set())
        found |= {path for path in loaded if not path.startswith(f"{Path(folder).parent}{os.sep}")}
        _write(Path(folder, _name(function)), found)


@contextmanager
def watched(loaded: set[str]) -> Iterator[None]:
    """Adds the paths of the modules and files to a set that a block loads, without those of the environment."""
    audit, thread, before = _audit(), threading.get_ident(), set(sys.modules)
    around, opened = audit.active.get(thread), set[str]()
    audit.active[thread] = opened
    try:
        yield
    finally:
        if around is None:
            del audit.active[thread]
        else:
            audit.active[thread] = around | opened
        modules = (getattr(sys.modules.get(name), "__file__", None) for name in set(sys.modules) - before)
        files = {os.path.abspath(file) for file in modules if isinstance(file, str)}
        loaded |= {path for path in (opened | files) - audit.written if not _is_of_environment(path)}


def _is_of_environment(path: str) -> bool:
    return path.startswith(_environment()) or _GENERATED in path.split(os.sep)


@cache
def _environment() -> tuple[str, ...]:
    folders = {sys.prefix, sys.base_prefix, os.path.dirname(fullpass.__file__)}
    folders |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places = {os.path.abspath(folder) for folder in folders} | {os.path.realpath(folder) for folder in folders}
    return (*_SYSTEM, *(f"{place}{os.sep}" for place in sorted(places) if place != os.sep))


def _name(function: str) -> str:
    return hashlib.sha256(function.encode()).hexdigest()[:16]


def _write(folder: Path, paths: Iterable[str]) -> None:
    """Writes a record whose name is its content, as other processes may write theirs at the same time."""
    text = json.dumps({path: content_digest(path) for path in sorted(paths)})
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}{_RECORD}", text)


def content_digest(path: str) -> str:
    """Returns a digest of the content of a file, or the names in a folder; "" without it.

    Of a file above 64 MB, size and time count.
    """
    try:
        if os.path.isdir(path):
            content = repr(sorted(name for name in os.listdir(path) if name != _GENERATED)).encode()
        else:
            status = os.stat(path)
            large = status.st_size > _HASHED_BYTES
            content = repr((status.st_size, status.st_mtime_ns)).encode() if large else Path(path).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()[:16]


def loaded_digest(functions: Iterable[str]) -> str:
    """Returns a text that changes when anything changes that functions have loaded in earlier runs.

    It stays the same while the content is that which was loaded; "" without records.
    """
    folder = os.environ.get(RECORDS_VARIABLE)
    if folder is None:
        return ""
    return " ".join(_token(Path(folder, _name(function))) for function in sorted(set(functions)))


def _read(record: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(record.read_bytes())
    except ValueError:
        return _DAMAGED
    return found


def _token(folder: Path) -> str:
    """Returns the token of the records of a function. After a change it is a new one, and the records are removed.

    The nodes that then run write them anew.
    """
    records = sorted(folder.glob(f"*{_RECORD}"))
    recorded_digests = [item for record in records for item in _read(record).items()]
    now = {path: content_digest(path) for path, _ in recorded_digests}
    file = folder / _TOKEN
    before = file.read_text("utf-8") if file.exists() else ""
    if all(now[path] == digest for path, digest in recorded_digests):
        return before
    token = hashlib.sha256(f"{before} {sorted(now.items())}".encode()).hexdigest()[:16]
    write_atomically(file, token)
    for record in records:
        record.unlink()
    return token
