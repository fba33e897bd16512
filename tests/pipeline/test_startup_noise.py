import os
import subprocess
import sys

import pytest

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
    with pytest.raises(KeyError, match="inside"), noise_to(tmp_path / "log"):
        raise KeyError("inside")
    assert os.fstat(2).st_ino == before.st_ino


def test_what_tensorflow_writes_while_it_loads_is_dropped_and_the_rest_stays(tmp_path):
    package = tmp_path / "tensorflow"
    package.mkdir()
    noise = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795634106.300123   20640 cudart_stub.cc:31] Could not find cuda drivers",
    )
    lines = "\n".join([*noise, "E0000 00:00:1 2 x.cc:3] broken", "a warning", ""])
    (package / "__init__.py").write_text(f"import os\nos.write(2, {lines.encode()!r})\nfound = 1\n")
    program = "from fullpass.pipeline.startup import set_environment\nset_environment()\nimport tensorflow.keras"
    (package / "keras.py").write_text("import os\nfrom tensorflow import found\nos.write(2, b'later')")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    del env["TF_CPP_MIN_LOG_LEVEL"]
    for level, expected in ((None, lines.partition("drivers\n")[2]), ("1", lines)):
        env |= {} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
        assert done.stderr == expected + "later"
