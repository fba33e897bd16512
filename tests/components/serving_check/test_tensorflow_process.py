"""A prepared process has TensorFlow, and nothing else of the training."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os, sys
what = sys.argv[1]
if what == "wait":
    import time
    time.sleep(60)
if what == "crash":
    os.abort()
if what == "fail":
    raise ValueError("mit Gründen")
found = [name for name in ("tensorflow", "numpy", "keras", "fullpass", "ours") if name in sys.modules]
print(os.getppid(), os.getcwd(), [path for path in sys.path if path.endswith("own")], found)
"""
_RUNNER = """
import os, subprocess, sys
from pathlib import Path
import ours, fullpass.preprocessing.config, tensorflow
from fullpass.components.serving_check import tensorflow_process
program, folder = Path(sys.argv[1]), sys.argv[2]
print(os.getpid(), folder, "[]", "['tensorflow', 'numpy']", flush=True)
for what, prepares in (("see", True), ("see", False), ("fail", True), ("crash", True), ("wait", True)):
    with tensorflow_process.ended_after():
        if prepares:
            tensorflow_process.prepare()
        for _ in range(1 + (what == "see")):
            try:
                seconds = 1 if what == "wait" else 60
                done = tensorflow_process.run_program(program, [what], folder=folder, seconds=seconds)
                print(done.returncode, done.stdout.strip(), *done.stderr.splitlines()[-1:], flush=True)
            except subprocess.TimeoutExpired:
                print("too long", flush=True)
"""


@pytest.mark.integration  # imports TensorFlow in a new process
def test_a_prepared_process_sees_the_environment_alone_and_ends_as_a_new_one(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "ours.py").write_text("")
    (tmp_path / "program.py").write_text(_PROGRAM, encoding="utf-8")
    (tmp_path / "runner.py").write_text(f"import sys\nsys.path.append({str(own)!r})\n{_RUNNER}")
    command = [sys.executable, str(tmp_path / "runner.py"), str(tmp_path / "program.py"), str(own)]
    ascii_files = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=120, check=False, env={**os.environ, **ascii_files}
    )
    assert done.returncode == 0, done.stderr
    expected, first, *new, fails, crashes, waits = done.stdout.splitlines()
    assert first == f"0 {expected}"
    # The prepared process runs one program; the others run in new processes, which have imported nothing yet.
    assert new == [f"0 {expected.replace(str(['tensorflow', 'numpy']), '[]')}"] * 3
    assert (fails, crashes, waits) == ("1  ValueError: mit Gründen", "-1 ", "too long")
