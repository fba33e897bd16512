"""The keys of the analyzer cache are the same in every process."""

import sys

import pytest

from tests import warm_process

TRACE = """
import hashlib
import tensorflow as tf
from fullpass.preprocessing.apply.column_tensors import Columns, raw_feature_spec
from fullpass.preprocessing.config import PreprocessingConfig

names = [f"n{i}" for i in range(12)]
config = PreprocessingConfig.model_validate({
    "derive": {f"sum{i}": f"{one} + {other} * 60" for i, (one, other) in enumerate(zip(names, names[1:]))},
    "features": {f"sum{i}": {"type": "number"} for i in range(len(names) - 1)},
    "label": {"name": "y", "task": "regression"},
})
with tf.Graph().as_default() as graph:
    spec = raw_feature_spec(config, serving=False)
    Columns({name: tf.compat.v1.sparse_placeholder(column.dtype, name=name) for name, column in spec.items()}, config)
print(hash("seed"), hashlib.sha256(graph.as_graph_def().SerializeToString(deterministic=True)).hexdigest())
"""


@pytest.mark.integration
def test_every_process_traces_the_same_graph(capsys):
    """Cache keys are digests of the graph, so a graph order that depends on hash seeds would miss all entries."""
    exec(TRACE, {})
    (seed, here) = capsys.readouterr().out.split()[-2:]
    (other_seed, there) = warm_process.run([sys.executable, "-c", TRACE], check=True).stdout.split()[-2:]
    assert seed != other_seed, "PYTHONHASHSEED is set, so this test shows nothing"
    assert there == here
