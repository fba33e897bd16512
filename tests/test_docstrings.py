"""The examples in docstrings give what they show."""

import doctest
import importlib

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.profile.value_counts import count_values
from tests import REPOSITORY
from tests.source_tree import LAYERS, module_name, source_files

MODULES = [
    module_name(path) for layer in LAYERS for path in source_files(layer) if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    module = importlib.import_module(f"fullpass.{name}")
    assert doctest.testmod(module, extraglobs={"load": load, "count_values": count_values}).failed == 0
