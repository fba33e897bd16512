"""The parameters of a node, and so its cache key, are what it reads."""

import pytest
from tfx import types
from tfx.types import standard_artifacts

from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.declared_schema import declared_schema
from fullpass.components.statistics.component import StatisticsGen
from fullpass.preprocessing.config import PreprocessingConfig

BASE = {
    "features": {"zone": {"type": "category"}, "fare": {"type": "number"}},
    "derive": {"rich": "fare > 10", "cheap": "fare < 3"},
    "label": {"name": "rich", "task": "binary"},
}


def _statistics(config):
    examples = types.Channel(type=standard_artifacts.Examples)
    return StatisticsGen(config, examples=examples, unit="day", folder="summaries")


def _comparison(config):
    examples = types.Channel(type=standard_artifacts.Examples)
    anomalies = types.Channel(type=standard_artifacts.ExampleAnomalies)
    gates = GatesConfig()
    return SpanComparison(
        config,
        gates,
        examples=examples,
        anomalies=anomalies,
        name="taxi",
        unit="day",
        folder="summaries",
        verdicts="verdicts",
        known="{}",
    )


NODES = [_statistics, _comparison, declared_schema]
same = {
    "an encoding": {"features": {**BASE["features"], "zone": {"type": "category", "encoding": {"embedding": 4}}}},
    "a transform": {"features": {**BASE["features"], "fare": {"type": "number", "transforms": ["z_score"]}}},
    "a derived column without a series": {"derive": {**BASE["derive"], "cheap": "fare < 4"}},
}
other = {
    "a raw column": {"features": {**BASE["features"], "tip": {"type": "number"}}},
    "the type of a column": {
        "features": {"zone": {"type": "category"}, "fare": {"type": "category"}},
        "derive": {},
        "label": {"name": "zone", "task": "multiclass"},
    },
}


def _parameters(node, change):
    return node(PreprocessingConfig.model_validate({**BASE, **change})).exec_properties


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("change", same.values(), ids=same)
def test_a_change_that_a_node_does_not_read_leaves_its_cache_key(node, change):
    assert _parameters(node, change) == _parameters(node, {})


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("change", other.values(), ids=other)
def test_a_change_that_a_node_reads_changes_its_cache_key(node, change):
    assert _parameters(node, change) != _parameters(node, {})


def test_the_label_of_a_derived_column_is_read():
    change = {"derive": {**BASE["derive"], "rich": "fare > 20"}}
    assert _parameters(_statistics, change) != _parameters(_statistics, {})
