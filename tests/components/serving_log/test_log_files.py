"""A reader never takes a torn line for whole, whenever the process that writes is killed."""

import subprocess
import sys

import pytest

from fullpass.components.serving_log.log_files import OpenFile, complete_files, name_as_complete

WRITER = """
import sys, time
from pathlib import Path
from fullpass.components.serving_log.log_files import OpenFile
file = OpenFile(Path(sys.argv[1]), "2026-11-29")
file.write(b'{"a": 1}\\n{"a": 2}\\n')
if sys.argv[2] == "torn":
    import os
    os.write(file._descriptor, b'{"a": ')
print("written", flush=True)
time.sleep(60)
"""


def killed(folder, how):
    """Kills a process that has written two lines, and part of a third."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), how], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"written\n"
    return process


@pytest.mark.parametrize(("how", "torn"), [("torn", 6), ("whole", 0)])
def test_the_file_of_a_killed_process_is_completed_without_its_torn_line(tmp_path, how, torn):
    process = killed(tmp_path, how)
    try:
        assert complete_files(tmp_path) == {}, "the process still writes"
    finally:
        process.kill()
        process.wait()
    [left] = (tmp_path / "2026-11-29").iterdir()
    assert left.name.endswith(".jsonl.open") and len(left.read_bytes()) == 18 + torn
    assert complete_files(tmp_path) == {left: torn}
    [found] = (tmp_path / "2026-11-29").iterdir()
    assert found.name == left.name.removesuffix(".open")
    assert found.read_bytes() == b'{"a": 1}\n{"a": 2}\n'
    assert complete_files(tmp_path) == {}


@pytest.mark.parametrize("content", [b"", b'{"a": ' + b"1" * 200_000])
def test_a_file_without_a_whole_line_is_removed(tmp_path, content):
    left = tmp_path / "2026-11-29" / "093000-1-1.jsonl.open"
    left.parent.mkdir()
    left.write_bytes(content)
    assert complete_files(tmp_path) == {left: len(content)}
    assert list(left.parent.iterdir()) == []


def test_a_finished_file_has_its_lines_and_its_final_name(tmp_path):
    file = OpenFile(tmp_path, "2026-11-29")
    file.write(b'{"a": 1}\n')
    file.write(b'{"a": 2}\n')
    assert complete_files(tmp_path) == {}
    file.finish(name_as_complete)
    [found] = (tmp_path / "2026-11-29").iterdir()
    assert found.suffix == ".jsonl" and found.read_bytes() == b'{"a": 1}\n{"a": 2}\n'
    empty = OpenFile(tmp_path, "2026-11-30")
    empty.finish(name_as_complete)
    assert list((tmp_path / "2026-11-30").iterdir()) == []


def test_a_full_disk_leaves_whole_lines(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from fullpass.components.serving_log.log_files import OpenFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
file = OpenFile(Path(sys.argv[1]), "2026-11-29")
line = b"x" * 29 + b"\\n"
file.write(line * 2)
try:
    file.write(line * 3)
except OSError as error:
    print(error.errno, file.size)
file.write(line)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "27 60\n"  # EFBIG
    [left] = (tmp_path / "2026-11-29").iterdir()
    assert left.read_bytes() == (b"x" * 29 + b"\n") * 3
