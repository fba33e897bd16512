"""The keys of the analyzer cache are the same in every process."""

import os
import subprocess
import sys

import pytest

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
print(hashlib.sha256(graph.as_graph_def().SerializeToString(deterministic=True)).hexdigest())
"""


@pytest.mark.integration
def test_every_process_traces_the_same_graph(capsys):
    """Cache keys are digests of the graph, so a graph order that depends on hash seeds would miss all entries."""
    exec(TRACE, {})
    here = capsys.readouterr().out.split()[-1]
    environment = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    done = subprocess.run(
        [sys.executable, "-c", TRACE], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split()[-1] == here
