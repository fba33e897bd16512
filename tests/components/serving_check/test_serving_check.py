"""The process of ServingCheck can import neither Fullpass nor the training libraries."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fullpass.components.serving_check import component, probe

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


@pytest.mark.parametrize(("seconds", "measured"), [(0.0, 200), (0.4, 3), (2.0, 1)])
def test_a_slow_model_answers_fewer_calls(monkeypatch, seconds: float, measured: int):
    now = [0.0]

    def answer() -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert probe._seconds(answer, 200) == pytest.approx([seconds] * measured)
