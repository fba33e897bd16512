"""Nodes of the user in the pipeline: they join the others, and a wrong one is refused before anything runs."""

import json

import pytest
from tfx.dsl.component.experimental import annotations, decorators  # noqa: F401  # before modules are restored
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.evaluation.judge.verdict import Verdict, read_verdict, verdict_json
from fullpass.components.evaluation.own_checks import BlessingExecutor
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build_nodes
from tests.pipeline.running.test_build import PATHS

pytestmark = pytest.mark.integration

YAML = """\
name: table
data: {source: {format: csv, path: rows.csv}}
label: {name: price, task: regression}
features: {rooms: number}
model: linear
nodes: mine:add
"""
HEAD = """\
from tfx.dsl.component.experimental.annotations import InputArtifact as given, OutputArtifact as made
from tfx.dsl.component.experimental.decorators import component
from tfx.types.standard_artifacts import InfraBlessing, Model, ModelBlessing, ModelEvaluation, String


@component
def Check(model: given[Model], blessing: made[ModelBlessing]):
    pass


@component
def Host(model: given[Model], verdict: made[InfraBlessing]):
    pass


@component
def Note(evaluation: given[ModelEvaluation], text: made[String]):
    pass


def add(nodes):
    model, evaluation = nodes["Trainer"].outputs["model"], nodes["Evaluator"].outputs["evaluation"]
"""


@pytest.fixture
def built(tmp_path, clean_imports):
    """Returns `build(lines)`: the nodes by id of a pipeline whose function `add` ends with these lines."""

    def build(lines: str) -> dict:
        (tmp_path / "pipeline.yaml").write_text(YAML)
        (tmp_path / "mine.py").write_text(HEAD + "".join(f"    {line}\n" for line in lines.splitlines()))
        use_modules_of(tmp_path)
        nodes = build_nodes(load(tmp_path / "pipeline.yaml"), PATHS)
        return {node.id: node for node in Pipeline("table", str(tmp_path), components=nodes).components}

    return build


def test_own_nodes_stand_among_the_others_and_their_blessings_decide_on_the_push(built):
    nodes = built(
        'note = Note(evaluation=evaluation)\nreturn {Check(model=model): ["Pusher"], '
        'Host(model=model).with_id("Canary"): ["Pusher"], note: ["Report"]}'
    )
    order = list(nodes)
    assert order.index("Trainer") < order.index("Check") < order.index("Blessing") < order.index("Pusher")
    assert order.index("Note") < order.index("Report")
    read = {name: channel.producer_component_id for name, channel in nodes["Blessing"].inputs.items()}
    assert {read.pop("Check"), read.pop("Canary")} == {"Check", "Canary"}
    assert set(read.values()) == {"Evaluator"}
    for reader in ("Pusher", "Report"):
        inputs = nodes[reader].inputs
        assert {inputs[name].producer_component_id for name in ("evaluation", "blessing")} == {"Blessing"}


def test_without_a_blessing_of_their_own_the_evaluator_decides_alone(built):
    nodes = built('return {Note(evaluation=evaluation): ["Pusher"], Check(model=model): []}')
    assert "Blessing" not in nodes
    assert nodes["Pusher"].inputs["blessing"].producer_component_id == "Evaluator"


def test_a_change_of_the_code_changes_the_executor_that_the_cache_compares(built):
    def executor(lines: str, node: str) -> bytes:
        return built(lines)[node].executor_spec.encode().SerializeToString()

    first, later = "return {Check(model=model): []}", "pass\nreturn {Check(model=model): []}"
    assert executor(first, "Check") != executor(later, "Check")
    assert executor(first, "Evaluator") == executor(later, "Evaluator")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("return [Check(model=model)]", ("mine:add returned [", "{FairnessCheck(...)")),
        ("return {Check: []}", ("is no TFX node",)),
        ('return {Check(model=model).with_id("trainer"): []}', ("node trainer; that name is taken", "with_id")),
        ('return {Check(model=model): "Pusher"}', ("wait for Check are 'Pusher'", "Give a list")),
        ('return {Check(model=model): ["Push"]}', ("no node 'Push'", "Did you mean", "Pusher")),
        ('return {Note(evaluation=evaluation): ["Trainer"]}', ("can be the first", "Trainer", "Note", "Evaluator")),
        ('return {Check(model=model): [nodes["Pusher"]]}', ("no node Pusher(", "are names of these")),
        ('return {Check(model=model): [["Pusher"]]}', ("no node ['Pusher']",)),
        ('return {Check(model=model).with_id("../../Check"): []}', ("a node '../../Check'", "letters, digits")),
        ('return {Check(model=nodes["Trainr"].outputs["model"]): []}', ("there is no node", 'Did you mean "Trainer"')),
        ("from tfx.orchestration.pipeline import Pipeline\nreturn {Pipeline('p', 'r', components=[]): []}",
         ("is no TFX node",)),
        ("raise SystemExit(3)", ("mine:add raised SystemExit: 3", "mine.py:")),
        ("return {Host(model=Check(model=model).outputs['x']): []}", ("mine.py:", "in add")),
        ("return {Check(model=evaluation): []}", ("mine.py:", "in add", "Model")),
        ("check = Note(evaluation=evaluation)\nother = Check(model=model)\nother.add_upstream_node(check)\n"
         "return {other: []}", ("Check reads Note, which is not returned",)),
    ],
)  # fmt: skip
def test_a_wrong_node_is_refused_with_what_is_accepted(built, lines, says):
    with pytest.raises(UserError) as refused:
        built(lines)
    assert all(part in str(refused.value) for part in says), str(refused.value)


@pytest.mark.parametrize(
    ("evaluator", "check", "reasons"),
    [
        (True, True, ()),
        (True, "BLESSED", ()),
        (True, "NOT_BLESSED", ("Check did not bless the model: zones differ.",)),
        (True, False, ("Check did not bless the model: zones differ.",)),
        (False, True, ("auc 0.5, required >= 0.6",)),
        (False, False, ("auc 0.5, required >= 0.6", "Check did not bless the model: zones differ.")),
    ],
)
def test_a_model_is_blessed_if_all_bless_it_and_all_reasons_are_told(tmp_path, evaluator, check, reasons):
    def artifact(kind: type, name: str):
        found = kind()
        found.uri = str(tmp_path / name)
        (tmp_path / name).mkdir()
        return found

    evaluated = artifact(standard_artifacts.ModelEvaluation, "evaluated")
    verdict = Verdict(evaluator, () if evaluator else ("auc 0.5, required >= 0.6",), (), 7)
    (tmp_path / "evaluated" / "verdict.json").write_text(verdict_json(verdict))
    (tmp_path / "evaluated" / "measured.json").write_text("{}")
    judged, own = (artifact(standard_artifacts.ModelBlessing, name) for name in ("judged", "own"))
    judged.set_string_custom_property("current_model", "/models/3")
    judged.set_int_custom_property("current_model_id", 3)
    if isinstance(check, str):  # a container writes a file
        (tmp_path / "own" / check).write_text("zones differ.\n")
    else:
        own.set_int_custom_property("blessed", int(check))
        own.set_string_custom_property("why", "zones differ.")
    made = {
        "evaluation": [artifact(standard_artifacts.ModelEvaluation, "evaluation")],
        "blessing": [artifact(standard_artifacts.ModelBlessing, "blessing")],
    }
    given = {"evaluator_evaluation": [evaluated], "evaluator_blessing": [judged], "Check": [own]}
    BlessingExecutor().Do(given, made, {})

    found = read_verdict(made["evaluation"][0].uri)
    assert (found.blessed, found.reasons, found.examples) == (not reasons, reasons, 7)
    assert json.loads((tmp_path / "evaluation" / "measured.json").read_text()) == {}
    blessing = made["blessing"][0]
    assert blessing.get_int_custom_property("blessed") == int(not reasons)
    assert blessing.get_int_custom_property("current_model_id") == 3
    assert blessing.get_string_custom_property("judged_by") == "Evaluator, Check"
    assert (tmp_path / "blessing" / ("NOT_BLESSED" if reasons else "BLESSED")).exists()
