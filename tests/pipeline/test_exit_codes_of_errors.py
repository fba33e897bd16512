"""What is wrong with this machine is a sentence and an exit code, not a defect."""

import os
import resource
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fullpass.pipeline.exit_codes import ExitCode, exit_code, explained
from tests import REPOSITORY

NOBODY = 65534


def raised(work) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def in_a_child(work, *, user: int) -> str:
    """Returns what `work` returns in a forked process of another user without HOME."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.environ.pop("HOME", None)
            os.setresuid(user, user, user)
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_is_a_sentence_that_names_it_and_the_user(tmp_path):
    os.chmod(tmp_path, 0o700)
    text = in_a_child(lambda: explained(raised((tmp_path / "runs").mkdir)), user=NOBODY)
    assert text.startswith(f"{tmp_path / 'runs'}: permission denied to the user nobody.\n") and "--root" in text
    text = in_a_child(lambda: explained(raised((tmp_path / "runs").mkdir)), user=12345678)
    assert "permission denied to the user 12345678" in text


def test_a_full_disk_is_a_sentence():
    def fill():
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(b"x")

    error = raised(fill)
    assert "the disk is full" in explained(error) and exit_code(error) == ExitCode.FAILED


def test_a_database_that_cannot_be_opened_is_a_sentence(tmp_path):
    error = raised(lambda: sqlite3.connect(tmp_path / "none" / "x.sqlite"))
    assert "cannot be opened" in explained(error) and "defect" not in explained(error)


def test_any_other_trouble_with_a_file_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    error = raised((tmp_path / "file" / "runs").mkdir)
    assert explained(error) == f"{tmp_path}/file/runs: Not a directory."


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_a_folder_for_temporary_files_those_that_were_tried_are_named(tmp_path, monkeypatch):
    os.chmod(tmp_path, 0o700)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path)])
    monkeypatch.setattr(tempfile, "tempdir", None)
    text = in_a_child(lambda: explained(raised(tempfile.gettempdir)), user=NOBODY)
    assert text.startswith(f"No usable temporary directory found in ['{tmp_path}'].\n") and "TMPDIR" in text


def test_what_is_ours_is_called_a_defect():
    assert "defect" in explained(raised(lambda: {}["x"]))


@pytest.mark.parametrize(("variable", "value"), [("PYTHONOPTIMIZE", "2"), ("PYTHONWARNINGS", "error")])
def test_a_setting_of_python_under_which_libraries_fail_is_named(variable, value):
    """TensorFlow reads docstrings while it loads; pyparsing warns of a name that httplib2 uses."""
    library = "import warnings\ndef f(): 'Does.'\nwarnings.warn('old name', DeprecationWarning)\nlen(f.__doc__)"
    code = (
        "from fullpass.pipeline.exit_codes import explained\n"
        f"try: exec({library!r})\nexcept Exception as error: print(explained(error))"
    )
    environment = {**os.environ, variable: value}
    text = subprocess.check_output([sys.executable, "-c", code], env=environment, cwd=REPOSITORY, text=True)
    assert f"\n{variable}" in text and "Unset it" in text and "defect" not in text


@pytest.mark.integration
def test_a_run_in_a_root_that_cannot_be_made_ends_with_the_sentence_and_code_1(edited):
    command = [sys.executable, "-m", "fullpass", "run", str(edited()), "--root", "/sys/kernel/fullpass"]
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == ExitCode.FAILED and not Path("/sys/kernel/fullpass").exists()
    assert "/sys/kernel/fullpass: " in done.stderr and "root" in done.stderr
    assert "defect" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("limit", "most", "said"), [("RLIMIT_FSIZE", 10, "ulimit -f"), ("RLIMIT_NOFILE", 4, "-n")])
def test_a_limit_of_this_process_is_a_sentence(tmp_path, limit, most, said):
    def work() -> str:
        resource.setrlimit(getattr(resource, limit), (most, most))
        return explained(raised(lambda: (tmp_path / "file").write_bytes(b"x" * 99)))

    text = in_a_child(work, user=os.geteuid())
    assert said in text and "defect" not in text


def test_a_full_disk_under_the_metadata_store_is_a_sentence():
    error = RuntimeError(
        "Failed to establish connection to Metadata storage with error: Error when executing query: "
        "disk I/O error query: COMMIT;"
    )
    assert "the disk reports an error" in explained(error) and "defect" not in explained(error)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("output", "code", "said"), [(">&-", ExitCode.DONE, ""), (">/dev/full", ExitCode.FAILED, "the disk is full")]
)
@pytest.mark.parametrize("command", ["models", "check"])
def test_closed_or_full_output_is_no_defect(edited, command, output, code, said):
    # Without descriptor 1, the first file that is opened would receive what is printed.
    line = f"exec {shlex.join([sys.executable, '-m', 'fullpass', command, str(edited())])} {output}"
    # Output is buffered, as in most shells, so what could not be written is still there when Python ends.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["sh", "-c", line], cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True, check=False, timeout=120
    )
    assert done.returncode == code and said in done.stderr and "defect" not in done.stderr
    assert "Exception ignored" not in done.stderr
