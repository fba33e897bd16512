"""Modules that the imports of the frameworks skip, and their import on later access."""

import json
import subprocess
import sys

import pytest

from fullpass.pipeline.startup import blocked_imports, import_lazily


def test_what_is_hidden_can_be_imported_later_and_what_is_there_stays():
    sys.modules.pop("this", None)
    with blocked_imports("this", "json"):
        with pytest.raises(ModuleNotFoundError):
            import this  # noqa: F401
        import json as there

        assert there is json
    assert "this" not in sys.modules and sys.modules["json"] is json


def test_a_user_without_a_home_and_a_name_gets_the_home_of_a_container():
    """Python's own `Path.home` fails for such a user."""
    script = """
import os, pwd, sys
from pathlib import Path
os.environ.pop("HOME", None)
def unknown(uid): raise KeyError(uid)
pwd.getpwuid = unknown
from fullpass.pipeline.startup import set_environment
set_environment()
print(Path.home())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "/\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `whole` whose code imports its module `large` and defines a name."""
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "__init__.py").write_text("from whole.large import SIZE\nNAME = 'whole'\n")
    (folder / "large.py").write_text("SIZE = 3\n")
    (folder / "small.py").write_text("SIZE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "whole"
    for name in [name for name in sys.modules if name.partition(".")[0] == "whole"]:
        del sys.modules[name]


def test_a_package_in_parts_runs_its_own_code_when_a_name_of_it_is_asked_for(package):
    import_lazily(package)
    from whole.small import SIZE

    assert SIZE == 1 and "whole.large" not in sys.modules
    import whole

    assert whole.large.SIZE == 3 and "NAME" not in vars(whole)
    assert whole.NAME == "whole" and whole.SIZE == 3
    with pytest.raises(AttributeError, match="module 'whole' has no attribute 'other'"):
        _ = whole.other


def test_a_package_that_is_imported_already_stays_as_it_is(package):
    import whole

    import_lazily(package)
    assert sys.modules[package] is whole and whole.NAME == "whole"


@pytest.mark.long
@pytest.mark.integration  # imports TFX in a new process
def test_names_of_tfx_are_there_after_the_imports_of_the_frameworks():
    code = (
        "import sys\n"
        "from fullpass.pipeline.startup import import_for_nodes, import_frameworks\n"
        "import_frameworks()\n"
        "late = {'IPython', 'keras', 'sklearn', 'scipy', 'pymongo', 'google.cloud.bigquery', 'google.cloud.pubsub'}\n"
        "print(len(late & sys.modules.keys()))\n"
        "list(import_for_nodes())\n"
        "print('IPython' in sys.modules)\n"
        "from google.cloud import bigquery\n"
        "from tfx import v1 as tfx\n"
        "from tfx.components import Pusher\n"
        "print(tfx.components.Pusher is Pusher)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["0", "False", "True"], done.stderr
