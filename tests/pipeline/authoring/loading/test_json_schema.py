"""Every union of the YAML tells a misspelt tag, and its bare forms and all metrics are valid by the JSON Schema."""

import json
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from fullpass.components.evaluation.measure.metrics import METRICS, OF_A_CLASS, metric_named
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.spec import SelectedBy
from fullpass.trainer.loss_config import LOSSES

SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"source": {"format": "csv", "path": "a.csv"}},
    "label": {"name": "y", "task": "regression"},
    "features": {"x": "number"},
}
IMAGE = {"type": "image", "height": 8, "width": 8}


def source(**more: Any) -> dict[str, Any]:
    return {"data": {"source": {"format": "csv", "path": "a.csv"}} | more}


# (class of the model, field) -> sections with a misspelt tag, path of the error, the word that was meant.
MISSPELT = {
    ("DataConfig", "source"): (
        {"data": {"source": {"format": "parqet", "path": "a"}}},
        "data.source.format",
        "parquet",
    ),
    ("DataConfig", "split"): (source(split={"method": "stratifed"}), "data.split.method", "stratified"),
    ("Join", "source"): (
        source(joins={"w": {"source": {"format": "jsonlins", "path": "a"}, "on": ["k"]}}),
        "data.joins.w.source.format",
        "jsonl",
    ),
    ("ServingLogConfig", "source"): (
        {"serving_log": {"source": {"format": "jsonlins", "path": "a"}}},
        "serving_log.source.format",
        "jsonl",
    ),
    ("LabelTable", "source"): (
        {"watch": {"labels": {"source": {"format": "cvs", "path": "a"}, "on": "id"}}},
        "watch.labels.source.format",
        "csv",
    ),
    ("PipelineConfig", "features"): ({"features": {"x": "numbr"}}, "features.x", "number"),
    ("PipelineConfig", "model"): ({"model": "wide_dep"}, "model", "wide_deep"),
    ("NumberFeature", "transforms"): (
        {"features": {"x": {"type": "number", "transforms": ["z_scor"]}}},
        "features.x.transforms[0]",
        "z_score",
    ),
    ("CountFeature", "transforms"): (
        {"features": {"x": {"type": "count", "transforms": ["log_1p"]}}},
        "features.x.transforms[0]",
        "log1p",
    ),
    ("DurationFeature", "transforms"): (
        {"features": {"x": {"type": "duration", "start": "a", "end": "b", "transforms": [{"clipp": {"min": 0}}]}}},
        "features.x.transforms[0]",
        "clip",
    ),
    ("OrdinalFeature", "transforms"): (
        {"features": {"x": {"type": "ordinal", "order": ["a", "b"], "transforms": ["log_1p"]}}},
        "features.x.transforms[0]",
        "log1p",
    ),
    ("VectorFeature", "transforms"): (
        {"features": {"x": {"type": "vector", "width": 2, "transforms": [{"pcaa": {"dimensions": 1}}]}}},
        "features.x.transforms[0]",
        "pca",
    ),
    ("SequenceSpec", "columns"): (
        {"sequences": {"s": {"columns": {"x": "categry"}}}},
        "sequences.s.columns.x",
        "category",
    ),
    ("SequenceSpec", "encoder"): (
        {"sequences": {"s": {"columns": {"x": "category"}, "encoder": "gruu"}}},
        "sequences.s.encoder",
        "gru",
    ),
    ("ListOf", "encoder"): (
        {"features": {"x": {"type": "category", "list": {"encoder": "transformr"}}}},
        "features.x.list.encoder",
        "transformer",
    ),
    ("TextFeature", "encoder"): (
        {
            "features": {
                "x": {"type": "text", "output": "ids", "max_length": 9, "encoder": {"transfomer": {"heads": 2}}}
            }
        },
        "features.x.encoder",
        "transformer",
    ),
    ("ImageFeature", "encoder"): ({"features": {"x": IMAGE | {"encoder": "cnnn"}}}, "features.x.encoder", "cnn"),
    ("TrainingConfig", "loss"): ({"training": {"loss": "quantil"}}, "training.loss", "quantile"),
}


def unions_below(model: type[BaseModel], seen: set[type]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yields (class, field) and the union, for each field below a model that holds a union."""
    if model in seen:
        return
    seen.add(model)
    for name, field in model.model_fields.items():
        yield from _unions_of((model.__name__, name), [field.annotation, *field.metadata], seen)


def _unions_of(place: tuple[str, str], parts: Any, seen: set[type]) -> Iterator[tuple[tuple[str, str], Any]]:
    for part in parts:
        if isinstance(part, SelectedBy):
            yield place, part
        elif isinstance(part, type) and issubclass(part, BaseModel):
            yield from unions_below(part, seen)
        yield from _unions_of(place, [*get_args(part), *getattr(part, "__metadata__", ())], seen)


UNIONS = dict(unions_below(PipelineConfig, set()))


def test_every_union_of_the_configuration_has_a_row_here():
    assert set(UNIONS) == set(MISSPELT)


@pytest.mark.parametrize(("sections", "path", "meant"), MISSPELT.values(), ids=map(".".join, MISSPELT))
def test_a_misspelt_tag_names_the_word_that_was_meant_and_the_accepted_ones(
    tmp_path, problems_of, sections, path, meant
):
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(SMALL | sections))
    (problem,) = (problem for problem in problems_of(file) if problem.path.startswith(path))
    assert problem.path == path
    assert problem.message.startswith("unknown ")
    assert f'Did you mean "{meant}"?' in problem.message
    accepted = problem.message.rpartition("Accepted: ")[2].rstrip(".").split(", ")
    assert meant in accepted and len(accepted) > 1


@pytest.mark.parametrize("loss", [{"kind": "quantil"}, {}, 5])
def test_a_loss_without_a_known_kind_names_all_kinds(tmp_path, problems_of, loss):
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(SMALL | {"training": {"loss": loss}}))
    (problem,) = problems_of(file)
    for kind in ("squared", "absolute", "huber", "poisson", "tweedie", "log_normal", "quantile", "focal"):
        assert kind in problem.message


def without_descriptions(schema):
    """The schema without its prose; a property may be named `description`, its value then is a mapping."""
    if isinstance(schema, dict):
        return {k: without_descriptions(v) for k, v in schema.items() if k != "description" or isinstance(v, dict)}
    return [without_descriptions(item) for item in schema] if isinstance(schema, list) else schema


def test_the_json_schema_is_what_it_was(golden):
    golden("pipeline_schema.json", json.dumps(without_descriptions(json_schema()), indent=1) + "\n")


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(json_schema())


def bare_forms() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the sections in which a bare word stands for a member of a union, for all that `load` accepts."""
    places = {
        ("PipelineConfig", "features"): lambda word: {"features": {"x": word}},
        ("PipelineConfig", "model"): lambda word: {"model": word},
        ("SequenceSpec", "columns"): lambda word: {"sequences": {"s": {"columns": {"x": word}}}},
        ("TrainingConfig", "loss"): lambda word: {"training": {"loss": word}},
    }
    assert set(places) == {place for place, union in UNIONS.items() if union.bare}
    words = (
        *("number", "category", "boolean", "date", "text", "count", "image", "vector", "target", "duration"),
        *("module", "linear", "mlp", "wide_deep", "dcn", "trees"),
        *("auto", "squared", "absolute", "huber", "poisson", "tweedie", "log_normal", "quantile", "focal"),
    )
    for place, sections in places.items():
        for word in words:
            yield f"{'.'.join(place)}: {word}", sections(word)


@pytest.mark.parametrize("sections", [pytest.param(sections, id=name) for name, sections in bare_forms()])
def test_a_bare_word_is_valid_by_the_schema_where_it_loads_and_nowhere_else(sections, validator):
    written = SMALL | sections
    try:
        PipelineConfig.model_validate(written)
        loads = True
    except ValueError as error:
        # What depends on other sections is no matter of the schema.
        loads = all(one["type"] == "value_error" for one in error.errors())
    assert validator.is_valid(written) == loads


def test_the_words_above_hold_all_kinds_of_loss():
    assert all(f"TrainingConfig.loss: {kind}" in dict(bare_forms()) for kind in LOSSES)


@pytest.mark.parametrize("name", [*METRICS, *(f"{metric}[big cat]" for metric in OF_A_CLASS), "coverage[0.9]"])
def test_every_kind_of_metric_is_valid_by_the_schema(name, validator):
    assert metric_named(name) is not None
    for evaluation in ({"metrics": [name]}, {"thresholds": {name: {"min": 0.5}}}):
        assert validator.is_valid(SMALL | {"evaluation": evaluation})
    misspelt = {"metrics": [f"x{name}"]}
    assert metric_named(f"x{name}") is None and not validator.is_valid(SMALL | {"evaluation": misspelt})


def test_a_metric_of_a_level_loads_with_its_quantile_loss(tmp_path):
    file = tmp_path / "pipeline.yaml"
    of_levels = {"kind": "quantile", "levels": [0.1, 0.5, 0.9]}
    sections = {"training": {"loss": of_levels}, "evaluation": {"metrics": ["coverage[0.9]"]}}
    file.write_text(yaml.safe_dump(SMALL | sections))
    assert load(file).config.evaluation.metrics == ("coverage[0.9]",)
