import os
import subprocess
import sys

from fullpass.pipeline.startup import noise_to

PROGRAM = """
import os, sys
from pathlib import Path
from fullpass.pipeline.startup import noise_to
print("before", file=sys.stderr)
with noise_to(Path(sys.argv[1])):
    print("python", file=sys.stderr)
    os.write(2, b"native\\n")
print("after", file=sys.stderr)
"""


def test_python_and_native_noise_go_to_the_file_and_nothing_else_does(tmp_path):
    log = tmp_path / "logs" / "start.log"
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log)], capture_output=True, text=True, env=env, check=True
    )
    assert log.read_text() == "python\nnative\n"
    assert done.stderr == "before\nafter\n"


def test_an_exception_passes_through_and_restores_standard_error(tmp_path):
    before = os.fstat(2)
    try:
        with noise_to(tmp_path / "log"):
            raise KeyError("inside")
    except KeyError:
        pass
    assert os.fstat(2).st_ino == before.st_ino
