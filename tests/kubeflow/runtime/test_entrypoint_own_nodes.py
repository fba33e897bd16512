"""The container of a node of the user's: its module, its parameters, and the values that it reads and returns."""

import json
import sys

import pytest

from fullpass.components.library_versions import line
from fullpass.kubeflow.runtime.entrypoint import run_nodes
from fullpass.kubeflow.runtime.executor_input import parse_message

pytestmark = pytest.mark.integration
MODULE = """\
from typing import Dict, List

from tfx.dsl.component.experimental.annotations import OutputDict, Parameter
from tfx.dsl.component.experimental.decorators import component


@component
def Count(text: str, weights: Parameter[Dict[str, float]], words: Parameter[List[str]]) -> OutputDict(total=float):
    return {"total": sum(weights[word] * text.count(word) for word in words)}
"""


def test_a_function_of_the_user_gets_values_and_returns_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "counts.py").write_text(MODULE)
    text, total = tmp_path / "text", tmp_path / "out" / "total"
    text.write_text("a b a")
    uris = {"text": "minio://bucket/text", "total": "minio://bucket/total"}
    message = {
        "inputs": {
            "parameterValues": {"weights": '{"a": 2.0, "b": 0.5}', "words": '["a", "b"]'},
            "artifacts": {"text": {"artifacts": [{"name": "7", "uri": uris["text"], "metadata": {}}]}},
        },
        "outputs": {
            "artifacts": {"total": {"artifacts": [{"name": "total", "uri": uris["total"]}]}},
            "outputFile": str(tmp_path / "output_metadata.json"),
        },
    }
    plan = {
        "node": "Count", "prefix": "", "executor": "fullpass_user.counts.Count_Executor",
        "parameters": {"weights": "dict", "words": "list"},
        "inputs": {"text": "tfx.types.standard_artifacts.String"}, "reads": {"text": "text"},
        "outputs": {"total": "tfx.types.standard_artifacts.Float"}, "beam": None, "windows": [],
    }  # fmt: skip
    task = {"line": line(), "folder": str(tmp_path / "pipeline"), "artifacts": "copied", "nodes": [plan]}
    run_nodes(task, parse_message(json.dumps(message), {"text": str(text)}, {"total": str(total)}))

    assert float(total.read_text()) == 4.5
    answer = json.loads((tmp_path / "output_metadata.json").read_text())
    assert answer["artifacts"]["total"]["artifacts"][0]["uri"] == uris["total"]
