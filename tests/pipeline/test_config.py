"""The config as a whole: what a file resolves to, written out and read again, and its JSON Schema."""

import jsonschema
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fullpass.components.evaluation.measure.metrics import DEFAULT_METRICS, METRICS
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.authoring.loading.yaml_tree import read_yaml
from fullpass.pipeline.authoring.show_config import resolved_yaml
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.features.feature import FEATURE_TYPES
from fullpass.preprocessing.features.transforms import Bucketize, NumberTransform, VectorTransform
from fullpass.preprocessing.spec import members_by_tag
from fullpass.trainer.config import NETWORKS
from tests import REPOSITORY

pytestmark = pytest.mark.integration

RICH = REPOSITORY / "tests" / "testdata" / "rich.yaml"
SMALL = {
    "name": "small",
    "data": {"source": {"format": "csv", "path": "a.csv"}},
    "label": {"name": "y", "task": "binary"},
    "features": {"x": "number"},
}


def members(union):
    """The classes of a tagged union."""
    return list(members_by_tag(union).values())


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_rich_file_resolves_as_it_did(golden):
    golden("rich_resolved.yaml", resolved_yaml(load(RICH).config))


def test_a_rich_file_uses_every_type():
    assert {feature.type for feature in load(RICH).config.features.values()} == set(FEATURE_TYPES)


@pytest.mark.parametrize(
    ("form", "spec"),
    [
        (form, spec)
        for union, form in ((NumberTransform, {"type": "number"}), (VectorTransform, {"type": "vector", "width": 4}))
        for spec in members(union)
    ],
)
def test_every_transform_is_shown_as_the_same_config_and_fits_the_json_schema(form, spec, validator):
    feature = {**form, **read_yaml(spec.example or f"transforms: [{spec.tag}]").data}
    written = {**SMALL, "features": {"x": feature}}
    config = PipelineConfig.model_validate(written)
    assert spec.tag in {transform.tag for transform in config.features["x"].transforms}
    shown = read_yaml(resolved_yaml(config)).data
    assert PipelineConfig.model_validate(shown) == config
    validator.validate(written)
    validator.validate(shown)


@pytest.mark.parametrize(
    "file", [RICH, *sorted((REPOSITORY / "examples").glob("*/pipeline.yaml"))], ids=lambda f: f.parent.name
)
def test_what_is_shown_loads_as_the_same_config_and_fits_the_json_schema(file, tmp_path, validator):
    config = load(file).config
    shown = tmp_path / "pipeline.yaml"
    shown.write_text(resolved_yaml(config))
    again = load(shown).config
    assert again == config and resolved_yaml(again) == shown.read_text()
    validator.validate(read_yaml(file.read_text()).data)
    validator.validate(read_yaml(shown.read_text()).data)


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("name", "Big Name"),
        ("nam", "small"),
        ("label", "y"),
        ("label", {"name": "y"}),
        ("features", ["x"]),
        ("features", {"x": "numbr"}),
        ("features", {"x": "duration"}),
        ("features", {"x": {"type": "number", "transforms": ["power"]}}),
        ("features", {"x": {"type": "number", "transforms": [{"clip": {"low": 0}}]}}),
        ("features", {"x": {"type": "date", "parts": ["hours"]}}),
        ("model", "module"),
        ("model", {"kind": "linear", "hidden": [1]}),
        ("evaluation", {"metrics": ["acu"]}),
        ("training", {"epochs": 0}),
    ],
)
def test_wrong_files_do_not_fit_the_json_schema(section, value, validator):
    assert validator.is_valid(SMALL)
    assert not validator.is_valid({**SMALL, section: value})


@pytest.mark.parametrize(
    ("bare", "written_out"),
    [
        *(({"features": {"x": word}}, {"features": {"x": {"type": word}}})
          for word in ("number", "category", "boolean", "date", "text", "count")),
        *(({"model": kind}, {"model": {"kind": kind}}) for kind in NETWORKS if kind not in ("module", "run_fn")),
    ],
)  # fmt: skip
def test_bare_words_are_short_for_their_defaults(bare, written_out):
    assert PipelineConfig.model_validate(SMALL | bare) == PipelineConfig.model_validate(SMALL | written_out)


@pytest.mark.parametrize("task", DEFAULT_METRICS)
def test_usual_metrics_fit_their_task(task):
    label = {"name": "y", "task": task} | ({"separator": ","} if task == "multilabel" else {})
    metrics = PipelineConfig.model_validate({**SMALL, "label": label}).evaluation.metrics
    assert metrics
    assert all(task in METRICS[name].tasks for name in metrics)


def test_bucketized_numbers_take_an_id_for_missing_unless_told_otherwise():
    def missing(**written):
        feature = {"type": "number", "transforms": [{"bucketize": {"buckets": 3}}], **written}
        config = PipelineConfig.model_validate({**SMALL, "features": {"x": feature}})
        assert isinstance(config.features["x"].transforms[-1], Bucketize)
        return config.features["x"].missing

    assert missing() == "own_bucket"
    assert missing(missing="median") == "median"


def test_the_parts_of_a_config_hold_what_their_component_needs():
    config = load(RICH).config
    assert config.preprocessing_config.slices == ("zip", "hour")
    assert config.preprocessing_config.derive == config.data.derive
    assert config.ingest_config.source == config.data.source
    assert config.trainer_config.model == config.model


def names():
    printable = st.characters(exclude_categories=("C", "Z")) | st.just(" ")
    return st.text(printable, min_size=1, max_size=12).filter(lambda text: "${" not in text)


def features():
    bound = st.floats(-1e6, 1e6)
    clips = st.builds(lambda low, high: {"clip": {"min": low, "max": low + 1 + abs(high)}}, bound, bound)
    transforms = st.lists(st.one_of(st.sampled_from(["log1p", "sqrt", "z_score", "min_max"]), clips), max_size=3)
    number = st.fixed_dictionaries(
        {"type": st.just("number")},
        optional={
            "missing": st.one_of(bound, st.sampled_from(["mean", "median", "min", "max"])),
            "indicator": st.booleans(),
            "column": names(),
            "transforms": transforms,
        },
    )
    tokens = st.lists(names(), min_size=1, max_size=4, unique=True)
    vocabulary = st.one_of(
        st.fixed_dictionaries({"tokens": tokens}, optional={"oov_buckets": st.integers(1, 5)}),
        st.fixed_dictionaries({}, optional={"top_k": st.integers(1, 10**9), "min_count": st.integers(1, 9)}),
    )
    category = st.fixed_dictionaries(
        {"type": st.just("category"), "vocabulary": vocabulary},
        optional={"separator": names(), "encoding": st.sampled_from(["auto", "one_hot", {"embedding": 7}])},
    )
    return st.one_of(number, category, st.sampled_from(["number", "category", "boolean", "date", "text", "count"]))


def configs():
    """Valid configs whose names and tokens are any printable text."""
    return st.builds(
        lambda features, path, derive, ratio: {
            **SMALL,
            "data": {
                "source": {"format": "csv", "path": path},
                "derive": derive,
                "split": {"method": "random", "ratios": {"train": ratio, "eval": 1}},
            },
            "features": features,
        },
        st.dictionaries(names(), features(), min_size=1, max_size=4),
        st.one_of(names(), st.lists(names(), max_size=3)),
        st.dictionaries(names(), names(), max_size=2),
        st.floats(min_value=1e-12, max_value=1e12),
    )


@settings(max_examples=50, deadline=None)
@given(tree=configs())
@example(
    tree={
        **SMALL,
        "data": {
            "source": {"format": "csv", "path": ["?0"]},
            "split": {"method": "random", "ratios": {"train": 1, "eval": 1}},
        },
    }
)
def test_any_config_is_shown_so_that_it_loads_as_itself(tree, tmp_path_factory):
    config = PipelineConfig.model_validate(tree)
    shown = tmp_path_factory.mktemp("shown") / "pipeline.yaml"
    text = resolved_yaml(config)
    assume("://" not in text)
    shown.write_text(text, encoding="utf-8")
    again = load(shown).config
    assert again == config and resolved_yaml(again) == text
