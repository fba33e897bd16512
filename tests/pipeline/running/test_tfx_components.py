"""The components of a pipeline file in a pipeline of TFX: what each takes, and what is refused before anything runs."""

import pytest
from tfx import v1 as tfx
from tfx.dsl.components.base.base_node import BaseNode

import fullpass

pytestmark = pytest.mark.integration
YAML = """\
name: table
data: {source: {format: csv, path: rows.csv}}
label: {name: price, task: regression}
features: {rooms: number}
model: linear
push: {to: serving}
"""
RUN_FN = "tfx.experimental.templates.penguin.models.model.run_fn"


@pytest.fixture
def own(tmp_path):
    (tmp_path / "pipeline.yaml").write_text(YAML)
    (tmp_path / "rows.csv").write_text("rooms,price\n1,2\n")
    return fullpass.tfx_components(tmp_path / "pipeline.yaml", root=tmp_path / "root")


@pytest.fixture
def stock(own):
    """Returns the outputs of TFX's components by name."""
    examples = tfx.components.CsvExampleGen(input_base="data").outputs["examples"]
    statistics = tfx.components.StatisticsGen(examples=examples).outputs["statistics"]
    schema = tfx.components.SchemaGen(statistics=statistics).outputs["schema"]
    trainer = tfx.components.Trainer(
        run_fn=RUN_FN, examples=examples, schema=schema,
        train_args=tfx.proto.TrainArgs(num_steps=1), eval_args=tfx.proto.EvalArgs(num_steps=1),
    )  # fmt: skip
    anomalies = tfx.components.ExampleValidator(statistics=statistics, schema=schema).outputs["anomalies"]
    return {"examples": examples, "schema": schema, "anomalies": anomalies, **trainer.outputs}


def test_every_component_takes_the_outputs_of_those_before_it(own, stock):
    examples = own.Ingest().outputs["examples"]
    transform = own.Transform(examples=examples, schema=stock["schema"]).outputs
    graph, ready = transform["transform_graph"], transform["transformed_examples"]
    trained = own.Trainer(examples=ready, transform_graph=graph).outputs
    model, run = trained["model"], trained["model_run"]
    parity = own.Parity(examples=examples, ready=ready, transform_graph=graph, model=model, model_run=run)
    evaluator = own.Evaluator(examples=examples, model=model)
    check = own.ServingCheck(model=model)
    spans = own.SpanComparison(examples=examples, anomalies=stock["anomalies"])
    gate = own.DataGate(comparison=spans.outputs["comparison"])
    pusher = own.Pusher(model=model, blessing=evaluator.outputs["blessing"], parity=parity.outputs["report"])
    nodes = (parity, evaluator, check, spans, gate, pusher)
    assert all(isinstance(node, BaseNode) for node in nodes)
    assert set(pusher.inputs) == {"model", "blessing", "parity"}
    assert pusher.exec_properties["target"].endswith("/serving")


def test_those_of_tfx_are_taken_too(own, stock):
    of_tfx = "tfx.experimental.templates.penguin.models.preprocessing:preprocessing_fn"
    transform = own.Transform(examples=stock["examples"], schema=stock["schema"], preprocessing_fn=of_tfx)
    assert set(transform.outputs) == {"transform_graph", "transformed_examples"}
    evaluator = own.Evaluator(examples=stock["examples"], model=stock["model"], label="species_xf", logits=True)
    assert set(evaluator.inputs) == {"examples", "model"}
    own.Pusher(model=stock["model"], blessing=evaluator.outputs["blessing"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda own, of: own.Evaluator(examples=of["examples"], model=of["model"]),
         "Evaluator knows the label of these only. Give label="),
        (lambda own, of: own.ServingCheck(model=of["model"]), "model is of Trainer with another run_fn"),
        (lambda own, of: own.SpanComparison(examples=of["examples"], anomalies=of["anomalies"]),
         "its examples are of CsvExampleGen. Use Ingest, or leave SpanComparison out"),
        (lambda own, of: own.Parity(examples=of["examples"], ready=of["examples"], transform_graph=of["examples"],
                                    model=of["model"], model_run=of["model_run"]),
         "Parity tells rows apart by the row ids that only Ingest writes"),
        (lambda own, of: own.Trainer(examples=of["examples"], transform_graph=of["examples"]),
         "its transform_graph is of CsvExampleGen. Use Transform without"),
        (lambda own, of: own.Trainer(examples=of["examples"], transform_graph=own.Transform(
            examples=of["examples"], schema=of["schema"], preprocessing_fn="a:b").outputs["transform_graph"]),
         "of Transform with a preprocessing_fn"),
    ],
)  # fmt: skip
def test_what_a_component_cannot_do_alone_is_refused(own, stock, make, says):
    with pytest.raises(fullpass.UserError) as refused:
        make(own, stock)
    assert says in str(refused.value)


def test_integers_that_features_read_are_refused_as_soon_as_a_schema_tells_of_them(own, stock, tmp_path):
    file = tmp_path / "schema.pbtxt"
    file.write_text('feature { name: "rooms" type: INT } feature { name: "price" type: FLOAT }')
    schema = tfx.components.ImportSchemaGen(schema_file=str(file)).outputs["schema"]
    with pytest.raises(fullpass.UserError, match="column 'rooms': the examples hold integers.* Use Ingest"):
        own.Transform(examples=stock["examples"], schema=schema)
    own.Transform(examples=stock["examples"], schema=schema, preprocessing_fn="a:b")


def test_the_root_is_marked_and_that_of_another_pipeline_refused(own, tmp_path):
    (tmp_path / "other.yaml").write_text(YAML.replace("name: table", "name: other"))
    with pytest.raises(fullpass.UserError, match="is the root of the pipeline table"):
        fullpass.tfx_components(tmp_path / "other.yaml", root=tmp_path / "root")


def test_the_data_need_not_be_here_if_another_example_gen_reads_it(tmp_path, stock):
    (tmp_path / "pipeline.yaml").write_text(YAML.replace("rows.csv", "elsewhere.csv"))
    with pytest.raises(fullpass.UserError):
        fullpass.tfx_components(tmp_path / "pipeline.yaml", root=tmp_path / "root")
    own = fullpass.tfx_components(tmp_path / "pipeline.yaml", root=tmp_path / "root", ingest=False)
    assert own.Transform(examples=stock["examples"], schema=stock["schema"]).id == "Transform"
