"""The process of ServingCheck can import neither Fullpass nor the training libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from fullpass.components.serving_check import component

_PROBE = Path(component.__file__).with_name("probe.py")
_PROGRAM = """
import importlib, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except OSError:
    pass  # there is no export
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ImportError:
        print(name)
"""


@pytest.mark.integration
def test_only_tensorflow_can_be_imported(tmp_path):
    names = ["fullpass", "fullpass.trainer", "tfx", "tensorflow_transform", "apache_beam", "keras", "json"]
    command = [sys.executable, "-I", "-c", _PROGRAM, str(_PROBE), str(tmp_path / "none"), *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == names[:-1]
