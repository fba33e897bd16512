"""Shared fixtures. This module sets the environment variables of TensorFlow before any test imports it."""

import atexit
import contextlib
import errno
import fcntl
import gc
import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import warm_process

os.environ["TF_USE_LEGACY_KERAS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# Threads of OpenMP and OpenBLAS would wait for each other, on tables this small, on the cores of other workers.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Test servers run on loopback; without this, requests to them would go to a proxy of the machine.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

# jsonschema builds a grammar of addresses in 6 seconds while it is imported, for formats that no test reads.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# A slow case on a busy machine is not a failure, so hypothesis has no deadline.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder of the server that forks commands and of temporary files, once for all workers.

    Processes that tests kill leave temporary files, which are removed with the folder. Those of `tmp_path` stay.
    """
    if not hasattr(config, "workerinput"):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        folder = tempfile.TemporaryDirectory(prefix="warm-", ignore_cleanup_errors=True)  # short, as a socket's path is
        config.add_cleanup(folder.cleanup)
        os.chmod(folder.name, 0o1777)  # some tests run as another user
        os.environ[warm_process.FOLDER] = os.environ["TMPDIR"] = folder.name
        tempfile.tempdir = None  # is read anew
        if config.option.markexpr.endswith("not long"):
            os.environ[warm_process.UNOPTIMIZED] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Disables the garbage collector, which would scan the objects of all imported libraries again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves files out without importing them if `-m "not MARK and not MARK"` leaves all their tests out."""
    left_out = re.fullmatch(r"not \w+( and not \w+)*", config.option.markexpr)
    if left_out is None or collection_path.suffix != ".py" or any(str(collection_path) in arg for arg in config.args):
        return None
    marked = re.search(r"^pytestmark = (.*)$", collection_path.read_text(encoding="utf-8"), re.MULTILINE)
    marks = set(re.findall(r"pytest\.mark\.(\w+)", marked[1])) if marked else set()
    return True if marks & set(re.findall(r"not (\w+)", left_out[0])) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the test files: first those with `RUN_FIRST = True`, then those with the longest tests.

    Files with `RUN_FIRST` fork, and TensorFlow's threads do not survive a fork. With the longest tests early, all
    workers end at about the same time.
    """
    marks: dict[str, set[str]] = {}
    for item in items:
        marks.setdefault(str(item.path), set()).update(mark.name for mark in item.iter_markers())

    def rank(item: pytest.Item) -> tuple[bool, bool, bool]:
        found = marks[str(item.path)]
        return not getattr(item.module, "RUN_FIRST", False), "e2e" not in found, "integration" not in found

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Checks that no module computed with TensorFlow, and tunes the garbage collector for what was imported.

    All later collections leave out the objects imported so far, close to a million. They also become less frequent,
    because tracing a graph creates thousands of objects and drops few.
    """
    # Tests of the source alone, as those before a commit, start in a second without TensorFlow.
    if "tensorflow" in sys.modules:
        _prepare_tensorflow()
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # DuckDB writes a page about objects that the interpreter cannot collect at its end
    gc.set_threshold(50_000, 20, 50)


def _prepare_tensorflow() -> None:
    from fullpass.preprocessing.internals.tf_internals import has_computed  # after the environment is set above

    if has_computed():
        raise pytest.UsageError(
            "A test module computes with TensorFlow while it is imported, so the tests that fork cannot run. "
            "Move the computation into a function or a fixture."
        )
    warm_process.turn_optimizer_off()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns one worker more than cores, because some tests only wait for a process or a disk."""
    return len(os.sched_getaffinity(0)) + 1


@contextlib.contextmanager
def restored_environment() -> Iterator[None]:
    """Restores `os.environ` after the block.

    Commands that run in this process set variables, which the processes of later tests would inherit.
    """
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True, scope="module")
def _module_restores_environment() -> Iterator[None]:
    with restored_environment():
        yield


@pytest.fixture(autouse=True)
def _test_restores_environment() -> Iterator[None]:
    with restored_environment():
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Returns `made_once(name, make)`, which calls `make(folder)` once for all workers and returns its result."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared

    def once(name: str, make: Callable[[Path], Any]) -> Any:
        folder = shared / f"made-{name}"
        with (shared / f"made-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "returned").exists():
                folder.mkdir()
                with restored_environment():
                    (folder / "returned").write_bytes(pickle.dumps(make(folder)))
            return pickle.loads((folder / "returned").read_bytes())

    return once


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; read the diff")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Returns `compare(name, text)`, which asserts that the text equals the file tests/golden/NAME."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no golden file {file}; write it by pytest --update-golden, and read it"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns a function after whose call no file can be opened for writing, as on a read-only file system."""
    open_file = os.open

    def refuse(path: Any, flags: int, *mode: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return open_file(path, flags, *mode, **options)

    def begin() -> None:
        monkeypatch.setattr(os, "open", refuse)
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)

    return begin
