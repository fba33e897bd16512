"""A decoder crash becomes an error that names the file, in commands and in nodes."""

import faulthandler
import os
import signal
import sys

import pyarrow as pa
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.crashes import NOTES_VARIABLE, noted, noted_files, run_in_fork
from fullpass.pipeline.exit_codes import ExitCode
from tests import warm_process
from tests.fuzz.targets.parquet_rows import damaged_file


def crashed(number: signal.Signals) -> None:
    """Crashes this process, without pytest's trace of it in the log of the tests."""
    faulthandler.disable()
    with noted("/data/a.parquet"):
        with noted("/data/b.parquet"):
            pass
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_names_what_was_being_read_and_nothing_else(number, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(
        UserError, match=f"^/data/a.parquet: reading it crashed the decoder .{number.name}.*write it again"
    ):
        run_in_fork(lambda: crashed(number))
    assert NOTES_VARIABLE not in os.environ and not list(tmp_path.iterdir())


def test_a_fork_returns_what_it_found_raises_what_is_for_the_user_and_nests(capfd):
    assert run_in_fork(lambda: (os.getpid(), run_in_fork(os.getpid))) != os.getpid()
    own, nested = run_in_fork(lambda: (os.getpid(), run_in_fork(os.getpid)))
    assert own == nested != os.getpid()

    def refuse():
        raise UserError("a.csv is empty")

    with pytest.raises(UserError, match=r"^a.csv is empty$"):
        run_in_fork(refuse)
    with pytest.raises(RuntimeError, match="ended with exit code 0"):
        run_in_fork(lambda: 1 / 0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_without_anybody_who_waits_nothing_is_noted(tmp_path):
    with noted("x"):
        assert noted_files(tmp_path) == []


YAML = """\
name: t
data: {source: {format: parquet, path: rows.parquet}}
label: {name: kind, task: multiclass}
features: {n: number, name: category, bytes: category, at: category, s.t: category, v: {type: vector, width: 2}}
"""
CRASHES_ARROW = 1213
"""Seed of a file that crashes Arrow 10, and that Arrow 18 refuses: the content of a page contradicts its header."""
CRASHES = int(pa.__version__.partition(".")[0]) < 18


@pytest.mark.integration
@pytest.mark.parametrize(
    "words", [("check", "p.yaml", "--data"), ("init", "rows.parquet", "--label", "kind", "-o", "new.yaml")]
)
def test_commands_name_a_file_that_crashes_arrow(words, tmp_path):
    (tmp_path / "rows.parquet").write_bytes(damaged_file(CRASHES_ARROW))
    (tmp_path / "p.yaml").write_text(YAML)
    done = warm_process.run([sys.executable, "-m", "fullpass", *words], cwd=tmp_path)
    in_check = words[0] == "check" and not CRASHES  # where a file that cannot be read is a mistake of the YAML
    told = "reading it crashed" if CRASHES else "reading stopped"
    assert done.returncode == (ExitCode.WRONG_USAGE if in_check else ExitCode.FAILED), done
    assert f"{tmp_path}/rows.parquet: {told}" in done.stderr, done
    assert "Traceback" not in done.stderr and "defect" not in done.stderr and not (tmp_path / "new.yaml").exists()
