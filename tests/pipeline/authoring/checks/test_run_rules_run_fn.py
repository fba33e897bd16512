"""What a `run_fn` of TFX needs, and every key that it cannot obey, is found before anything runs."""

import pytest

from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build
from fullpass.pipeline.running.request import node_names

YAML = """\
name: table
data: {source: {format: csv, path: rows.csv}}
label: {name: sold, task: binary}
features: {rooms: number}
preprocessing: mine:preprocessing_fn
model: {kind: run_fn, function: "mine:run_fn", label: sold_xf, train_steps: 3, custom_config: {units: 4}}
"""


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "rows.csv").write_text("rooms,sold,weight\n1,0,1\n2,1,1\n")
    (tmp_path / "mine.py").write_text("def preprocessing_fn(inputs): ...\ndef run_fn(fn_args): ...\n")

    def found(text):
        (tmp_path / "pipeline.yaml").write_text(text)
        return {problem.path: problem.message for problem in check(load(tmp_path / "pipeline.yaml"))}

    return found


@pytest.mark.parametrize(
    ("old", "new", "path", "says"),
    [
        ("preprocessing: mine:preprocessing_fn\n", "", "preprocessing", "name the preprocessing_fn of TFX"),
        ("mine:run_fn", "mine:run_fun", "model.function", 'Did you mean "run_fn"?'),
        ("mine:run_fn", "mine:preprocessing_fn", "", ""),
        ("task: binary", 'task: multilabel, separator: ","', "label.task", "whose label is one value"),
        ("task: binary", "task: binary, weight: weight", "label.weight", "weighs and exports as its module says"),
        ("model:", "training: {epochs: 3}\nmodel:", "training.epochs", "trains, weighs and exports as"),
        ("model:", "training: {warm_start: blessed}\nmodel:", "", ""),
        ("model:", "training: {warm_start: serving/1}\nmodel:", "training.warm_start", "which is fn_args.base_model"),
        ("model:", "input: {cache: none}\nmodel:", "input", "is not for model: {kind: run_fn}"),
        ("model:", "parity: {rows: 9}\nmodel:", "parity", "Parity and ServingCheck are left out"),
        ("model:", "tuning: {search: {training.epochs: {choices: [1, 2]}}}\nmodel:", "tuning", "this search does not"),
        ("model:", "evaluation: {decision: {metric: f1}}\nmodel:", "evaluation.decision", "Remove it"),
    ],
)  # fmt: skip
def test_what_it_cannot_obey_is_refused(problems, old, new, path, says):
    found = problems(YAML.replace(old, new, 1))
    assert says in found[path] if path else not found


@pytest.mark.integration
def test_its_nodes_are_those_that_fit_and_the_trainer_has_the_steps_and_the_config(problems, tmp_path):
    assert not problems(YAML)
    loaded = load(tmp_path / "pipeline.yaml")
    nodes = {node.id: node for node in build(loaded, root=tmp_path / "runs").components}
    assert sorted(nodes) == sorted(node_names(loaded.config))
    assert "SchemaGen" in nodes
    assert not {"Parity", "ServingCheck"} & nodes.keys()
    given = nodes["Trainer"].exec_properties
    assert (given["run_fn"], '"num_steps": 3' in given["train_args"]) == ("mine:run_fn", True)
    assert '"custom_config": {"units": 4}' in given["custom_config"]
