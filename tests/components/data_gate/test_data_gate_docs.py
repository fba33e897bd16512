"""The examples of docs/data-gate.md are valid, and its defaults equal those of the code."""

import re

import pytest
import yaml

from fullpass.components.data_gate.config import GatesConfig
from tests import REPOSITORY

TEXT = (REPOSITORY / "docs" / "data-gate.md").read_text()
EXAMPLES = re.findall(r"(?m)^    gates:\n(?:      .*\n)+", TEXT)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_valid(example):
    GatesConfig.model_validate(yaml.safe_load(example)["gates"])


def test_there_are_examples_and_every_check_is_described():
    assert len(EXAMPLES) == 3
    described = dict(re.findall(r"(?m)^\| `(\w+)` \| .* \| (warn|stop) \|$", TEXT))
    assert described == {name: check.policy for name, check in GatesConfig().checks.items()}


def test_the_limits_are_those_described():
    gates = GatesConfig()
    assert f"over {gates.missing.max_change * 100:g} percentage points" in TEXT
    assert f"Jensen-Shannon over {gates.drift.js:g}, or L-infinity over {gates.drift.linf:g}" in TEXT
    assert f"over {gates.label.js:g}, or over {gates.label.linf:g}" in TEXT
    assert (gates.rows.min_ratio, gates.rows.max_ratio, gates.history) == (0.5, 2.0, 30)
