"""The examples in docstrings give what they show."""

import doctest
import importlib

import pytest

from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.profile.value_counts import count_values
from tests import REPOSITORY

MODULES = (
    "pipeline.authoring.checks.check",
    "pipeline.authoring.data_check.data_check",
    "pipeline.authoring.derived_columns",
    "pipeline.authoring.json_schema",
    "pipeline.authoring.loading.load",
    "pipeline.authoring.loading.problems",
    "pipeline.authoring.profile.column_profile",
    "pipeline.authoring.profile.value_counts",
    "pipeline.authoring.show_config",
    "preprocessing.dates.date_format",
    "preprocessing.errors",
    "preprocessing.expressions.expression",
    "preprocessing.expressions.parser",
    "preprocessing.features.feature",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    module = importlib.import_module(f"fullpass.{name}")
    found = doctest.testmod(module, extraglobs={"load": load, "count_values": count_values})
    assert found.attempted and not found.failed
